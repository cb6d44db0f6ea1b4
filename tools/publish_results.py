"""Copy what a reproduction found into the documentation: verdicts, rows, small figures, and a page about them.

    python -m tools.publish_results reproduction docs/results/quick

Runs, arrays and PDFs stay behind. Verdicts can be derived again from the rows, and a test does so.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from recombine.core.files import write_text
from recombine.studies.framework.study import discover, natural


def publish(source: Path, target: Path) -> None:
    """Replace what is in `target` by the results in `source`."""
    for name in ("tables", "figures"):
        shutil.rmtree(target / name, ignore_errors=True)
    for pattern in ("claims.json", "reproduce.json", "tables/*", "figures/*.png"):
        for path in source.glob(pattern):
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    about = json.loads((target / "reproduce.json").read_text())
    for call in about["calls"]:
        call["command"] = _elsewhere(call["command"])
    write_text(target / "reproduce.json", json.dumps(about, indent=2) + "\n")
    write_text(target / "README.md", page(target))


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
        f"Sizes are those of the profile ([reproduce](../../reproduce.md)). {_origin(made)}",
        "",
        *map(_call_line, made),
        "",
        "## Claims",
        "[Statistics and thresholds](../../statistics.md) were written down before the runs. Of the parts that decide "
        "a claim the weakest is shown: among those that have its verdict, the one that lies least far beyond its "
        "threshold, in half widths of its interval. `claims.json` has all of them.",
        "",
        "| claim | verdict | first edition | decided by | effect [95 % interval over seeds] | asked | seeds |",
        "|---|---|---|---|---|---|---|",
        *map(_claim_line, claims),
        "",
        "## Figures",
    ]
    figures = sorted(path.name for path in (folder / "figures").glob("*.png"))
    for study in sorted(discover().values(), key=lambda study: natural(study.results[0])):
        ours = [name for name in figures if any(_is_of(name, result) for result in study.results)]
        if ours:
            lines += ["", f"### {', '.join(study.results)}: {study.title}", ""]
            lines += [f"![{Path(name).stem.replace('_', ' ')}](figures/{name})" for name in ours]
    return "\n".join(lines) + "\n"


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
             f"{row['direction']} {asked}", str(row["n_seeds"])]  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]))
