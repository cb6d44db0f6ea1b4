"""Copy what a reproduction found into the documentation: verdicts, rows, small figures, and a page about them.

    python -m tools.publish_results reproduction docs/results

Runs, arrays and PDFs stay behind. Verdicts can be derived again from the rows, and a test does so.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from recombine.files import write_text
from recombine.studies.study import discover, natural


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
    about["command"] = "make reproduce"  # the folder it was written to does not matter
    write_text(target / "reproduce.json", json.dumps(about, indent=2) + "\n")
    write_text(target / "README.md", page(target))


def page(folder: Path) -> str:
    """The page about a folder of results, from its files alone."""
    about = json.loads((folder / "reproduce.json").read_text())
    claims = json.loads((folder / "claims.json").read_text())
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    hardware = about["hardware"]
    lines = [
        "# Results of the quick profile",
        "",
        f"Made by `{about['command']}` with {versions}, on {hardware['cores']} cores ({hardware['machine']}) without a "
        f"GPU, seeds {', '.join(map(str, about['seeds']))}. Sizes are those of the profile "
        "([reproduce](../reproduce.md)): smaller and shorter than the paper's.",
        "",
        "## Claims",
        "Statistics and thresholds were written down before the runs. A claim of several parts is decided by its "
        "weakest one, which is shown; `claims.json` has all of them.",
        "",
        "| claim | verdict | decided by | effect [95 % interval over seeds] | asked | seeds |",
        "|---|---|---|---|---|---|",
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


def _is_of(figure: str, result: str) -> bool:
    return figure.startswith(f"{result[0]}{int(result[1:]):02d}_")


def _claim_line(row: dict[str, Any]) -> str:
    effect = "–" if row["statistic"] is None else f"{row['statistic']:.3g}"
    if row["interval"] and row["interval"][0] is not None:
        effect += " [{:.3g}, {:.3g}]".format(*row["interval"])
    threshold = row["threshold"]
    asked = " … ".join(map(str, threshold)) if isinstance(threshold, list) else threshold
    return (
        f"| {row['claim']}: {row['text']} | **{row['verdict']}** | {row['decided_by']} | {effect} | "
        f"{row['direction']} {asked} | {row['n_seeds']} |"
    )


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]))
