"""Summaries of a diagnosis: text, HTML for notebooks, JSON for scripts."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from recombine.diagnostics.findings import json_able
from recombine.diagnostics.part import PARTS, Part

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis


def by_layer(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """A row per layer with the main numbers of the parts that were computed."""
    rows: dict[str, dict[str, Any]] = {name: {"layer": name} for name in diagnosis.layers}
    for part in _known_parts(diagnosis):
        for name, numbers in part.layer_numbers(diagnosis.parts[part.name]).items():
            rows[name] |= numbers
    return list(rows.values())


def _known_parts(diagnosis: Diagnosis) -> list[Part]:
    """The computed parts that this version knows."""
    return [part for name, part in PARTS.items() if diagnosis[name].computed]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.3g}"
    return "–" if value in (None, "") else str(value)


def _table(diagnosis: Diagnosis) -> list[list[str]]:
    rows = by_layer(diagnosis)
    headings = {key: one.heading for part in _known_parts(diagnosis) for key, one in part.layer_columns.items()}
    columns = [key for key in headings if any(key in row for row in rows)]
    if not columns:
        return []
    return [["layer", *(headings[c] for c in columns)],
            *([row["layer"], *(_text(row.get(c)) for c in columns)] for row in rows)]  # fmt: skip


def _headline(diagnosis: Diagnosis) -> str:
    held = diagnosis.holdout
    cells = "no hold-out" if held is None else f"{held.n_id} ID and {held.n_ood} OOD cells"
    return f"{diagnosis.space}, {cells}, {len(diagnosis.layers)} layers"


def _numbers(diagnosis: Diagnosis) -> list[str]:
    """A line for each part whose results are not all in the table by layer."""
    lines = [part.summary(diagnosis.parts[part.name]) for part in _known_parts(diagnosis) if not part.layer_columns]
    return [line for line in lines if line]


def _gaps(diagnosis: Diagnosis) -> list[str]:
    """A line for each reason, with all results that are missing for it."""
    by_reason: dict[str, list[str]] = {}
    for name, missing in diagnosis.missing.items():
        for what, why in missing.items():
            by_reason.setdefault(why.reason, []).append(name if what == name else f"{name}, {what}")
    return [f"{'; '.join(names)}: {reason}" for reason, names in by_reason.items()]


def as_text(diagnosis: Diagnosis) -> str:
    """The verdict, a row per layer, and the missing results."""
    lines = [
        f"Diagnosis of a model over {_headline(diagnosis)}",
        f"Verdict: {diagnosis.verdict.kind}",
        str(diagnosis.verdict),
    ]
    table = _table(diagnosis)
    if table:
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        lines += ["", *("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in table)]
    numbers = _numbers(diagnosis)
    if numbers:
        lines += ["", *numbers]
    if diagnosis.notes:
        lines += ["", "Notes:", *(f"  {note}" for note in diagnosis.notes)]
    gaps = _gaps(diagnosis)
    if gaps:
        lines += ["", "Missing:", *(f"  {gap}" for gap in gaps)]
    return "\n".join(lines)


def as_html(diagnosis: Diagnosis) -> str:
    """The same for notebooks; names of layers and factors are escaped."""
    verdict = diagnosis.verdict
    pieces = [f"<p>Diagnosis of a model over {escape(_headline(diagnosis))}</p>",
              f"<p>Verdict: <b>{escape(verdict.kind)}</b>. {escape(verdict.explanation)}</p>"]  # fmt: skip
    table = _table(diagnosis)
    if table:
        body = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in table[1:]]
        head = "".join(f"<th>{escape(cell)}</th>" for cell in table[0])
        rows = "".join(f"<tr>{row}</tr>" for row in body)
        pieces.append(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
    numbers = _numbers(diagnosis)
    if numbers:
        pieces.append("<ul>" + "".join(f"<li>{escape(line)}</li>" for line in numbers) + "</ul>")
    if diagnosis.notes:
        pieces.append("<p>Notes:</p><ul>" + "".join(f"<li>{escape(note)}</li>" for note in diagnosis.notes) + "</ul>")
    gaps = _gaps(diagnosis)
    if gaps:
        pieces.append("<p>Missing:</p><ul>" + "".join(f"<li>{escape(gap)}</li>" for gap in gaps) + "</ul>")
    return "".join(pieces)


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The verdict, the numbers by layer, all tables except those by cell, and the missing results."""
    tables = {
        name: {table: rows for table, rows in part.tables.items() if not (rows and "cell" in rows[0])}
        for name, part in diagnosis.parts.items()
        if part.computed
    }
    content = {
        "verdict": diagnosis.verdict.to_json(),
        "layers": by_layer(diagnosis),
        "parts": tables,
        "missing": {
            name: {what: {"state": why.state.value, "reason": why.reason} for what, why in missing.items()}
            for name, missing in diagnosis.missing.items()
        },
        "facts": diagnosis.facts,
        "source": diagnosis.source,
    }
    return json_able(content)
