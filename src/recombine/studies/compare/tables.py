"""Tables of a comparison: tidy CSV, and LaTeX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from recombine.studies.compare.results import Status, learnt, means, ratios

Rows = Sequence[Mapping[str, Any]]


def latex(rows: Rows) -> str:
    """LaTeX table of remedy × (scene, split): share of correct unseen cells, best of each block and column in bold.

    A circle marks remedies that have not learnt their trained cells with most of their seeds.
    """
    shares, trained = means(rows, "right"), learnt(rows)
    tasks = list(dict.fromkeys((row["scene"], row["split"]) for row in rows))
    blocks: dict[str, list[str]] = {}
    for row in rows:
        names = blocks.setdefault(row["block"], [])
        if row["remedy"] not in names:
            names.append(row["remedy"])
    lines = [
        r"\begin{tabular}{l" + "r" * len(tasks) + "}", r"\toprule",
        " & ".join(["", *(_text(scene) for scene, _ in tasks)]) + r" \\",
        " & ".join(["remedy", *(_text(split) for _, split in tasks)]) + r" \\",
    ]  # fmt: skip
    for block, names in blocks.items():
        best = {task: max((shares[n, *task] for n in names if (n, *task) in shares), default=None) for task in tasks}
        lines += [r"\midrule", rf"\multicolumn{{{1 + len(tasks)}}}{{l}}{{\emph{{{_text(block)}}}}} \\"]
        for name in names:
            cells = [
                _cell(shares.get((name, *task)), best[task], trained.get((name, *task), 1.0) >= 0.5) for task in tasks
            ]
            lines.append(" & ".join([_text(name), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _cell(share: float | None, best: float | None, trained: bool) -> str:
    if share is None:
        return "--"
    text = rf"\textbf{{{share:.2f}}}" if share == best else f"{share:.2f}"
    return text if trained else rf"{text}$^\circ$"


def _text(name: str) -> str:
    return name.replace("_", r"\_")


def summary(rows: Rows) -> list[dict[str, Any]]:
    """One row per remedy, scene and split: means over seeds, and counts of verdicts and failing factors.

    `learnt` is the share of seeds that have learnt, `ood_over_id` the median over seeds of that ratio.
    """
    found = {"right": means(rows, "right"), "right_trained": means(rows, "right_trained"), "learnt": learnt(rows)}
    found |= {name: means(rows, name) for name in ("id_error", "ood_error")}
    found |= {"ood_over_id": ratios(rows), "seconds": means(rows, "seconds")}
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["remedy"], row["scene"], row["split"]), []).append(row)
    return [
        {
            "remedy": key[0], "block": group[0]["block"], "control": group[0]["control"], "scene": key[1],
            "split": key[2], "seeds": sum(row["status"] == Status.DONE for row in group),
            **{column: values.get(key) for column, values in found.items()},
            "verdicts": _counts(row["verdict"] for row in group), "failing": _counts(row["failing"] for row in group),
            "parameters": group[0]["parameters"], "memory_mb": group[0]["memory_mb"],
            "steps": group[0]["steps"], "reason": next((row["reason"] for row in group if row["reason"]), None),
        }
        for key, group in groups.items()
    ]  # fmt: skip


def shares(rows: Rows) -> list[dict[str, Any]]:
    """One row per remedy, with its share of right unseen cells on every scene and split."""
    found = means(rows, "right")
    tasks = list(dict.fromkeys((row["scene"], row["split"]) for row in rows))
    blocks = dict.fromkeys((row["block"], row["remedy"]) for row in rows)
    return [
        {
            "remedy": remedy,
            "block": block,
            **{f"{scene}, {split}": found.get((remedy, scene, split)) for scene, split in tasks},
        }
        for block, remedy in blocks
    ]


def _counts(values: Any) -> str:
    return ", ".join(f"{value} {count}" for value, count in Counter(v for v in values if v).most_common())
