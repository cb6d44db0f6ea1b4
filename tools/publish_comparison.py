"""Copy a comparison of remedies into the documentation: rows, tables, small figures, and a page about them.

    python -m tools.publish_comparison comparison docs/benchmark/small

Runs, PDFs and the interactive page stay behind. The page is written from the copied files alone, and a test writes it
again.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from recombine.core.files import write_text
from recombine.studies.compare.remedy import Block
from recombine.studies.compare.suite import SUITES

FILES = ("rows.csv", "summary.csv", "ranks.csv", "published.csv", "limits.csv", "table.tex", "compare.json")
FIGURES = {
    "heat_map": "Share of correct unseen cells by remedy, scene and split, mean over seeds",
    "errors": "OOD against ID error, one point per run",
    "cost": "Share of correct unseen cells against training time",
    "ranks": "Mean rank of every remedy with its 95 % interval over seeds",
}
LIMITS = (
    "Covered order is the largest number of factors whose combinations of values all occur in training. Coverage "
    "per value is the smallest share of a value's combinations that are trained on. Pixel coverage is the share "
    "of the energy of unseen images in pixels that some training image lights. The last column is the share of "
    "correct unseen cells of the least-squares sum over factors or objects, fitted to the trained images. No sum fits "
    "them better; one that fits them worse can have more correct cells."
)
PUBLISHED = (
    "Each claim is about the mean share of correct unseen cells of a remedy, or about the difference to its control, "
    "with a threshold that was fixed before the runs. *Holds* and *fails* mean that the number is significantly on one "
    "side of the threshold (level 0.025, Holm's correction over all claims). The interval is the 95 % interval over "
    "seeds, without correction."
)
WORDS = ("remedy", "block", "control", "scene", "split", "status", "reason", "verdict", "failing", "run")
INTEGERS = ("seed", "parameters", "steps", "batch", "pictures", "trial", "covered_order")
GALLERY = "outputs_{scene}_{split}"

Rows = list[dict[str, str]]


def publish(source: Path, target: Path) -> None:
    """Copy the files of a complete comparison, and write the page about them."""
    (target / "figures").mkdir(parents=True, exist_ok=True)
    galleries = [path.stem for path in (source / "figures").glob("outputs_*.png")]
    for name in (*FILES, *(f"figures/{figure}.png" for figure in (*FIGURES, *galleries))):
        shutil.copyfile(source / name, target / name)
    write_text(target / "README.md", page(target))


def page(folder: Path) -> str:
    """The page about a folder of results, from its files alone."""
    about = json.loads((folder / "compare.json").read_text(encoding="utf-8"))
    summary, ranks, published, limits = (
        _table(folder / f"{name}.csv") for name in ("summary", "ranks", "published", "limits")
    )
    budget = about["budget"]
    sizes = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in budget.items())
    lines = [
        f"# {_title(about)}",
        "",
        f"[The benchmark](../../benchmark.md) describes the procedure. Budget: {sizes}. {about['seeds']} seeds.",
        "",
        "## Share of correct unseen cells",
        "Means over seeds. The best remedy of a column is bold, separately for remedies with equal and with their own "
        "budgets. ° marks remedies that have not learnt their *trained* cells with most of their seeds; their share "
        "says little about composition.",
        "",
        *_shares(summary),
        "",
        "## Ranks",
        "Mean rank over scenes and splits, remedies with equal budgets only. Rank 1 is the best.",
        "",
        *_ranks(ranks),
        "",
        "## Scenes, splits and the limit of sums",
        LIMITS,
        "",
        *_limits(limits),
        *(["", "## Published claims", PUBLISHED, "", *_claims(published)] if published else []),
        "",
        "## Figures",
        *(line for name, text in FIGURES.items() for line in ("", f"![{text}](figures/{name}.png)")),
        "",
        "## Outputs",
        "Each figure shows the truth and the outputs of every remedy (seed 0) for the same unseen cells, which are "
        "drawn at random.",
        *_galleries(folder, about),
    ]
    left_out = _left_out(about["left_out"])
    return "\n".join([*lines, *(["", "## Left out", *left_out] if left_out else [])]) + "\n"


def _title(about: dict[str, Any]) -> str:
    """What was compared, in words."""
    known = SUITES[about["suite"]].scenes
    if all(known.get(name) == scene for name, scene in about["scenes"].items()):
        return f"Results of the suite {about['suite']}"
    return f"Results on other scenes, with the budget of the suite {about['suite']}"


def _galleries(folder: Path, about: dict[str, Any]) -> list[str]:
    """The figures of outputs, in the order of scenes and splits."""
    lines: list[str] = []
    for scene in about["scenes"]:
        for split in about["splits"]:
            path = f"figures/{GALLERY.format(scene=scene, split=split)}.png"
            if (folder / path).is_file():
                lines += ["", f"![Outputs of every remedy on {scene}, split {split}]({path})"]
    return lines


def _shares(summary: Rows) -> list[str]:
    tasks = list(dict.fromkeys((row["scene"], row["split"]) for row in summary))
    found = {(r["remedy"], r["scene"], r["split"]): float(r["right"]) for r in summary if r["right"]}
    marks = {(r["remedy"], r["scene"], r["split"]): "°" if r["learnt"] and float(r["learnt"]) < 0.5 else ""
             for r in summary}  # fmt: skip
    lines = [
        f"| remedy | {' | '.join(f'{scene}, {split}' for scene, split in tasks)} |",
        "|---" * (1 + len(tasks)) + "|",
    ]
    for block in dict.fromkeys(row["block"] for row in summary):
        remedies = list(dict.fromkeys(row["remedy"] for row in summary if row["block"] == block))
        best = {task: max((found[r, *task] for r in remedies if (r, *task) in found), default=None) for task in tasks}
        for remedy in remedies:
            cells = [_share(found.get((remedy, *task)), best[task]) + marks[remedy, *task] for task in tasks]
            lines.append(f"| {remedy}{'' if block == Block.EQUAL else f' ({block})'} | {' | '.join(cells)} |")
    return lines


def _share(share: float | None, best: float | None) -> str:
    text = "–" if share is None else f"{share:.2f}"
    return f"**{text}**" if share is not None and share == best else text


def _ranks(ranks: Rows) -> list[str]:
    columns = list(ranks[0]) if ranks else []
    lines = [f"| {' | '.join(name.replace('_', ' ') for name in columns)} |", "|---" * len(columns) + "|"]
    return [*lines, *(f"| {' | '.join(_short(row[name]) for name in columns)} |" for row in ranks)]


def _limits(rows: Rows) -> list[str]:
    lines = [
        "| scene | split | composition | CP rank | held out | covered order | coverage per value | pixel coverage "
        "| best sum |",
        "|---" * 9 + "|",
    ]
    for row in rows:
        shares = [row["held_out"], row["value_coverage"], row["pixel_coverage"], row["sum_right"]]
        held_out, values, pixels, best = (f"{float(share):.2f}" if share else "–" for share in shares)
        told = [row["scene"], row["split"], row["composition"] or "–", row["cp_rank"] or "–", held_out]
        lines.append(f"| {' | '.join([*told, row['covered_order'], values, pixels, best])} |")
    return lines


def _claims(rows: Rows) -> list[str]:
    """A table of the published claims."""
    lines = ["| claim | source | number | scenes, splits | asked | found | outcome |", "|---" * 7 + "|"]
    for row in rows:
        number = f"`{row['remedy']}`" + (f" − `{row['control']}`" if row["control"] else "")
        where = f"{row['scenes'].replace(' ', ', ')}; {row['splits'].replace(' ', ', ')}"
        asked = f"{'<' if row['side'] == 'below' else '>'} {float(row['threshold']):g}"
        found = f"{float(row['number']):.2f}"
        if row["low"] not in ("", "nan"):
            found += f" ({float(row['low']):.2f} to {float(row['high']):.2f})"
        told = [row["text"], row["source"], number, where, asked, found, f"**{row['outcome']}**"]
        lines.append(f"| {' | '.join(told)} |")
    return lines


def _short(text: str) -> str:
    try:
        return f"{float(text):.3g}"
    except ValueError:
        return text


def _left_out(entries: list[list[str]]) -> list[str]:
    """One line per remedy and reason, with the scenes it concerns."""
    scenes: dict[tuple[str, str], list[str]] = {}
    for remedy, scene, _, reason in entries:
        group = scenes.setdefault((remedy, reason), [])
        if scene not in group:
            group.append(scene)
    return [f"- `{remedy}` on {', '.join(where)}: {reason}" for (remedy, reason), where in scenes.items()]


def typed_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a folder of results, with numbers as numbers and None for missing entries."""
    found = _table(folder / "rows.csv")
    return [{column: _value(column, text) for column, text in row.items()} for row in found]


def _value(column: str, text: str) -> Any:
    if text == "":
        return "" if column == "failing" else None
    if column in INTEGERS:
        return int(text)
    return text if column in WORDS else float(text)


def _table(path: Path) -> Rows:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]))
