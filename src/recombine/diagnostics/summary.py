"""A diagnosis at a glance: as text, as HTML for notebooks, as JSON for scripts."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from recombine.diagnostics.findings import json_able

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

HEADINGS = {
    "factorization": "factorization",
    "log_volume": "log10 dv OOD−ID",
    "probe_id_to_ood": "probe ID→OOD",
    "probe_ridge_ood": "ridge ID→OOD",
    "stripe": "stripe",
    "bump": "bump",
    "single_factor": "single-factor share",
    "grouping": "grouping",
}


def by_layer(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """A row per layer with the main numbers of the parts that were computed."""
    rows: dict[str, dict[str, Any]] = {name: {"layer": name} for name in diagnosis.layers}
    parts = diagnosis.parts
    if parts["geometry"].computed:
        for name in diagnosis.layers:
            found = {r["cells"]: r for r in parts["geometry"].rows if r["layer"] == name and r["pair"] == "all"}
            rows[name]["factorization"] = found["all"]["factorization_pointwise"]
            if "ood" in found:
                rows[name]["log_volume"] = found["ood"]["log_volume"] - found["id"]["log_volume"]
    if parts["probes"].computed:
        for score in ("id_to_ood", "ridge_ood"):
            for name in diagnosis.layers:
                r2 = [r["r2"] for r in parts["probes"].rows if r["layer"] == name and r["score"] == score]
                rows[name][f"probe_{score}"] = sum(r2) / len(r2) if r2 else math.nan
    if parts["tuning"].computed:
        for row in parts["tuning"].rows:
            rows[row["layer"]] |= {"stripe": row["stripe"], "bump": row["bump"]}
    if parts["complexity"].computed and "layers" in parts["complexity"].tables:
        for row in parts["complexity"].table("layers"):
            rows[row["layer"]] |= {"single_factor": row["up_to_1"], "grouping": row.get("grouping", "")}
    return list(rows.values())


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.3g}"
    return "–" if value in (None, "") else str(value)


def _table(diagnosis: Diagnosis) -> list[list[str]]:
    rows = by_layer(diagnosis)
    columns = [key for key in HEADINGS if any(key in row for row in rows)]
    if not columns:
        return []
    return [["layer", *(HEADINGS[c] for c in columns)],
            *([row["layer"], *(_text(row.get(c)) for c in columns)] for row in rows)]  # fmt: skip


def _headline(diagnosis: Diagnosis) -> str:
    held = diagnosis.holdout
    cells = "no hold-out" if held is None else f"{held.n_id} ID and {held.n_ood} OOD cells"
    return f"{diagnosis.space}, {cells}, {len(diagnosis.layers)} layers"


def _numbers(diagnosis: Diagnosis) -> list[str]:
    """A line for each part that is about the outputs and not about layers."""
    parts, lines = diagnosis.parts, []
    if parts["errors"].computed:
        errors = [f"{r['cells'].upper()} {_text(r['mse'])} ({_text(r['relative'])} of the truth's variance)"
                  for r in parts["errors"].rows]  # fmt: skip
        lines.append(f"mean squared error: {', '.join(errors)}")
    if parts["superposition"].computed:
        [sums] = parts["superposition"].table("remembered")
        beside = ", ".join(f"{name} {_text(sums[name])}" for name in ("truth", "unrelated", "trained"))
        lines.append(f"share of OOD outputs that sums of remembered ones explain: {_text(sums['share'])} ({beside})")
        lines += [
            f"cosine with the superposition, {row['side']} side, mean taken off: {_text(row['cosine'])} "
            f"(with the truth {_text(row['cosine_truth'])})"
            for row in parts["superposition"].table("summary")
            if row["centred"]
        ]
    if parts["kernels"].computed:
        for row in parts["kernels"].tables.get("agreement", []):
            lines.append(
                f"{row['similarity']} of OOD with ID outputs against shared values: r = {_text(row['correlation'])} "
                f"(p = {_text(row['p_value'])})"
            )
        for row in parts["kernels"].tables.get("spectrum", []):
            lines.append(f"kernel spectrum ({row['method']}): {_text(row['participation_ratio'])} effective terms")
    return lines


def _gaps(diagnosis: Diagnosis) -> list[str]:
    return [
        f"{name}: {reason}" if what == name else f"{name}, {what}: {reason}"
        for name, missing in diagnosis.missing.items()
        for what, reason in missing.items()
    ]


def as_text(diagnosis: Diagnosis) -> str:
    """The verdict, a row per layer, and what is missing."""
    lines = [f"Diagnosis of a model over {_headline(diagnosis)}", f"Verdict: {diagnosis.verdict}"]
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
              f"<p><b>{escape(verdict.kind)}</b>: {escape(verdict.explanation)}</p>"]  # fmt: skip
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
    """The verdict, the numbers by layer, the tables but those by cell, and what is missing."""
    tables = {
        name: {table: rows for table, rows in part.tables.items() if not (rows and "cell" in rows[0])}
        for name, part in diagnosis.parts.items()
        if part.computed
    }
    content = {
        "verdict": diagnosis.verdict.to_json(),
        "layers": by_layer(diagnosis),
        "parts": tables,
        "missing": diagnosis.missing,
        "facts": diagnosis.facts,
        "source": diagnosis.source,
    }
    return json_able(content)
