"""Copy what a reproduction found into the documentation: verdicts, rows, small figures, and a page about them.

    python -m tools.publish_results reproduction docs/results/quick

Every study whose rows are complete is copied, so that results can be published while other studies are still running.
Studies that were published before and are not in the folder stay, so that a long profile can be made study by study on
several machines; they must have the same edition of the statistics and the same training code. Runs, arrays and PDFs
stay behind. Verdicts can be derived again from the rows, and a test does so. The page above them, which shows all
profiles side by side, is written too.
"""

from __future__ import annotations

import csv
import json
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recombine.core.errors import StoreError
from recombine.core.files import write_text
from recombine.core.statistics import median
from recombine.studies.framework.edition_2 import CLAIMS
from recombine.studies.framework.inference import MOST_SEEDS
from recombine.studies.framework.output import Output
from recombine.studies.framework.profiles import PROFILES
from recombine.studies.framework.reproduce import judged, lacking, listed, reasons
from recombine.studies.framework.study import discover, natural, undiagnosed
from recombine.studies.framework.verdicts import Outcome

PROFILE_ORDER = ("quick", "standard", "paper")
DECIDING = {Outcome.NOT_REPRODUCED: "; `{}` fails", Outcome.INCONCLUSIVE: "; `{}` is open"}  # the part that decides
OVERVIEW = "<!-- written by `python -m tools.publish_results`: do not edit below -->\n"


def publish(source: Path, target: Path) -> None:
    """Add the results in `source` to `target`; studies that both have are replaced."""
    about = json.loads((source / "reproduce.json").read_text())
    output, published = Output(source, about["profile"]), Output(target, about["profile"])
    complete = [key for key in output.studies() if _is_complete(output, key)]
    kept = [key for key in published.studies() if key not in complete]
    check_alike(output, complete, published, kept)
    for path in _files(target, (key for key in published.studies() if key in complete)):
        path.unlink()
    for path in _files(source, complete):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    claims = [row for key in published.studies() for row in derived(published, key)]
    about["calls"] = _calls(about["calls"], published.about().get("calls", []))
    about["lacking"] = lacking(published, PROFILES[about["profile"]])
    write_text(target / "reproduce.json", json.dumps(about, indent=2) + "\n")
    ordered = sorted(claims, key=lambda row: natural(row["claim"]))
    write_text(target / "claims.json", json.dumps(ordered, indent=2) + "\n")
    write_text(target / "README.md", page(target))


def check_alike(output: Output, complete: Iterable[str], published: Output, kept: Iterable[str]) -> None:
    """Refuse to put rows beside published ones that other statistics or other training code made.

    Raises:
        StoreError: which studies differ.
    """
    new = {key: output.made_by(key) for key in complete}
    old = {key: published.made_by(key) for key in kept}
    if len({*new.values(), *old.values()}) > 1:
        raise StoreError(
            f"The rows of {published.root} and of {output.root} come from different editions of the statistics or from "
            f"different training code, so they cannot stand side by side. Published: {old}. New: {new}."
        )


def _calls(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls behind all published studies, in order of time, without the folders they wrote to."""
    started = {call["started"] for call in new}
    together = [call for call in old if call["started"] not in started] + new
    return [{**call, "command": _elsewhere(call["command"])} for call in together]


def derived(output: Output, key: str) -> list[dict[str, Any]]:
    """The verdicts of a published study, derived from its rows."""
    study, part = discover()[key], output.load(key, arrays=False)
    reason, failure = listed(reasons(part.missing)), listed(reasons(undiagnosed(part)))
    about = {"study": key, "results": list(study.results), "profile": output.profile}
    return [{**row, **about} for row in judged(study, part, output.seeds_of(key), reason, failure)]


def _is_complete(output: Output, key: str) -> bool:
    """Whether all rows of a study are there and unchanged; a study that is being written is not."""
    try:
        output.load(key)
    except (StoreError, OSError):
        return False
    return key in discover()


def _files(folder: Path, studies: Iterable[str]) -> list[Path]:
    """Tables and small figures of some studies."""
    tables, figures = [], []
    for key in studies:
        tables += sorted(folder.glob(f"tables/{key}[.-]*"))
        results = discover()[key].results
        figures += [path for path in folder.glob("figures/*.png") if any(_is_of(path.name, r) for r in results)]
    return [*tables, *sorted(figures)]


def _elsewhere(command: str) -> str:
    """A command without the folder it was written to, which says something about a machine and nothing else."""
    words = shlex.split(command)
    for place, word in enumerate(words):
        if word == "--out" and place + 1 < len(words):
            words[place + 1] = "reproduction"
        elif word.startswith("--out="):
            words[place] = "--out=reproduction"
    return shlex.join(words)


def page(folder: Path) -> str:
    """The page about a folder of results, from its files alone."""
    about = json.loads((folder / "reproduce.json").read_text())
    claims = json.loads((folder / "claims.json").read_text())
    made = [call for call in about["calls"] if call["trained"]]
    lines = [
        f"# Results of the {about['profile']} profile",
        "",
        *_report(folder),
        *_partial(about.get("lacking", {})),
        f"Sizes are those of the profile ([reproduce](../../reproduce.md)). {_origin(made)}",
        "",
        *map(_call_line, made),
        "",
        "## Claims",
        "[Statistics and thresholds](../../statistics.md) were written down before the runs. Of the parts that decide "
        "a claim the weakest is shown: among those that have its verdict, the one that lies least far beyond its "
        "threshold, in half widths of its interval. `claims.json` has all of them. The last column has the number of "
        "seeds that would decide an inconclusive claim with a power of 0.8, if means and spreads stay as they are.",
        "",
        "| claim | verdict | first edition | decided by | effect [95 % interval over seeds] | required | seeds "
        "| seeds to decide |",
        "|---|---|---|---|---|---|---|---|",
        *map(_claim_line, claims),
        "",
        *_widths(folder),
        "## Figures",
    ]
    figures = sorted(path.name for path in (folder / "figures").glob("*.png"))
    for study in sorted(discover().values(), key=lambda study: natural(study.results[0])):
        ours = [name for name in figures if any(_is_of(name, result) for result in study.results)]
        if ours:
            lines += ["", f"### {', '.join(study.results)}: {study.title}", ""]
            lines += [f"![{Path(name).stem.replace('_', ' ')}](figures/{name})" for name in ours]
    return "\n".join(lines) + "\n"


def _report(folder: Path) -> list[str]:
    """A link to the text about the results, if there is one."""
    return ["[What holds, and what does not](report.md) explains these results.", ""] * (folder / "report.md").is_file()


def _partial(missing: dict[str, str]) -> list[str]:
    """What is lacking, if anything is."""
    if not missing:
        return []
    told = ", ".join(f"`{study}` ({what})" for study, what in missing.items())
    return [f"**Partial.** These studies are not, or not with all seeds, among the results: {told}.", ""]


def _widths(folder: Path) -> list[str]:
    """Whether networks of the paper's width agree with the narrower ones that decide."""
    rows = [row for path in sorted(folder.glob("tables/*-width_check.csv")) for row in _table(path)]
    if not rows:
        return []
    apart = [row for row in rows if row["same_side"] != "True"]
    told = []
    for part in dict.fromkeys(row["part"] for row in apart):
        same = [row for row in rows if row["part"] == part]
        narrow, wide = (f"{median(float(r[f'value_{name}']) for r in same):.3g}" for name in ("narrow", "wide"))
        differ = sum(row["part"] == part for row in apart)
        told.append(
            f"{part} with {differ} of {len(same)} seeds (median of all: {narrow} at width {same[0]['narrow']}, {wide} "
            f"at width {same[0]['wide']})"
        )
    rest = f" The others: {'; '.join(told)}." if apart else ""
    return [
        "## Widths",
        f"Some seeds were trained at the paper's width too. Of {len(rows)} numbers of claims, {len(rows) - len(apart)} "
        f"lie on the same side of their threshold at both widths.{rest}",
        "",
    ]


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def overview(results: Path) -> str:
    """The verdicts of all published profiles side by side, from their files alone."""
    found = {name: json.loads((results / name / "claims.json").read_text())
             for name in PROFILE_ORDER if (results / name / "claims.json").is_file()}  # fmt: skip
    if not found:
        return ""
    verdicts = {name: {row["claim"]: row for row in rows} for name, rows in found.items()}
    partial = {name: json.loads((results / name / "reproduce.json").read_text()).get("lacking") for name in found}
    heads = [f"[{name}]({name}/README.md){' (partial)' if partial[name] else ''}" for name in found]
    lines = ["", f"| claim | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for claim, text in ((claim.id, claim.text) for claim in CLAIMS.values()):
        cells = [_short(verdicts[name].get(claim)) for name in found]
        lines.append(f"| {claim}: {text} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _short(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    part = DECIDING.get(row["verdict"], "").format(row["decided_by"])
    return f"**{row['verdict']}** ({row['n_seeds']} seeds{part})"


def write_overview(results: Path) -> None:
    """Put the overview below the marker of the page above the profiles."""
    main = results / "README.md"
    text = main.read_text(encoding="utf-8") if main.is_file() else "# Results\n\n"
    write_text(main, text.partition(OVERVIEW)[0] + OVERVIEW + overview(results))


def _origin(calls: list[dict[str, Any]]) -> str:
    """Whether the runs come from one call."""
    runs = sum(call["trained"] for call in calls)
    if len(calls) == 1 and calls[0]["started"]:
        return f"All {runs} runs were trained in one call:"
    return f"The {runs} runs were not trained in one call, so that no single time stands for all of them:"


def _call_line(call: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in call["versions"].items())
    hardware, seeds = call["hardware"], _seeds(call["seeds"])
    gpus = f"{hardware['gpus']} GPUs" if hardware["gpus"] else "no GPU"
    if call["started"]:
        when = f"from {call['started']} to {call['ended'] or 'an unknown time (it was killed)'}"
        when += f", {call['seconds'] / 60:.1f} minutes" if call["seconds"] else ""
    else:
        when = "times were not recorded"
    note = f" {call['note']}" if call.get("note") else ""
    return (
        f"- `{call['command']}`, seeds {seeds}: {call['trained']} runs; {when}; {versions}; {hardware['cores']} cores "
        f"({hardware['machine']}), {gpus}.{note}"
    )


def _seeds(by_study: dict[str, list[int]]) -> str:
    """ "100 … 107", and the studies that had others."""
    groups: dict[str, list[str]] = {}
    for study, seeds in by_study.items():
        groups.setdefault(f"{min(seeds)} … {max(seeds)}", []).append(study)
    return next(iter(groups)) if len(groups) == 1 else "; ".join(f"{s} ({', '.join(n)})" for s, n in groups.items())


def _is_of(figure: str, result: str) -> bool:
    return figure.startswith(f"{result[0]}{int(result[1:]):02d}_")


def _claim_line(row: dict[str, Any]) -> str:
    effect = "–" if row["statistic"] is None else f"{row['statistic']:.3g}"
    if row["interval"] and row["interval"][0] is not None:
        effect += " [{:.3g}, {:.3g}]".format(*row["interval"])
    threshold = row["threshold"]
    asked = " … ".join(map(str, threshold)) if isinstance(threshold, list) else threshold
    first = row["first_edition"]["verdict"]
    cells = [f"{row['claim']}: {row['text']}", f"**{row['verdict']}**", first, row["decided_by"], effect,
             f"{row['direction']} {asked}", str(row["n_seeds"]), _seeds_to_decide(row)]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _seeds_to_decide(row: dict[str, Any]) -> str:
    if row["verdict"] != Outcome.INCONCLUSIVE:
        return ""
    return f"> {MOST_SEEDS}" if row["seeds_to_decide"] is None else str(row["seeds_to_decide"])


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]))
    write_overview(Path(sys.argv[2]).parent)
