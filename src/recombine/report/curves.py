"""Charts over runs and seeds: quantities by layer, ID against OOD scores, and growth of thresholds with N."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from recombine.diagnostics.overview import by_layer
from recombine.diagnostics.page_content import LayerColumn
from recombine.diagnostics.part import PARTS
from recombine.report.collect import Model, Table
from recombine.report.labels import distinct_names, groups_of, told, under_given_names
from recombine.runs.store import StoredRun
from recombine.scoring.intervals import bootstrap_interval
from recombine.scoring.metrics import METRICS
from recombine.scoring.scores import axis_label, on_log_scale

SERIES = ("variant", "series", "kind", "condition", "name")  # columns that name the series of a row
OF_A_LAYER = ("layer", "name", "kind")  # columns that identify the layer of a row
SHOWN_ROWS = 300


def quantities() -> dict[str, LayerColumn]:
    """The quantities that are drawn by layer, from diagnoses and tables, as declared by the parts."""
    return {name: column for part in PARTS.values() for name, column in part.layer_columns.items()}


def layer_curves(models: Sequence[Model], tables: Iterable[Table]) -> list[dict[str, Any]]:
    """One chart per quantity. It maps series to points (layer, mean, interval over seeds, number of seeds)."""
    values: dict[str, dict[str, dict[tuple[int, str], list[float]]]] = {}
    titles = quantities()
    known: set[tuple[Any, ...]] = set()  # several tables may contain the same run

    def put(quantity: str, series: str, depth: int, layer: str, value: Any, run: Any = None) -> None:
        if run is not None and (quantity, run, depth) in known:
            return
        known.add((quantity, run, depth))
        if isinstance(value, int | float) and math.isfinite(value):
            values.setdefault(quantity, {}).setdefault(series, {}).setdefault((depth, layer), []).append(float(value))

    for model, series in zip(models, _series(models)):
        for depth, row in enumerate(by_layer(model.diagnosis)):
            for quantity in titles:
                put(quantity, series, depth, row["layer"], row.get(quantity))
    for table in tables:
        if table.rows and "layer" in table.rows[0] and "seed" in table.rows[0]:
            _put_table(table, list(titles), put)
    return [
        {
            "quantity": quantity,
            "title": column.heading,
            "highest": column.highest,
            "cut_below": column.cut_below,
            "series": [{"name": name, "points": _points(found)} for name, found in values[quantity].items()],
        }
        for quantity, column in titles.items()
        if quantity in values
    ]


def _series(models: Sequence[Model]) -> list[str]:
    """The series of each model.

    Runs that differ only in their seed form one series. If one of them was named by the user, the series has that name.
    Every other model is a separate series.
    """
    runs = [model.run for model in models if model.run is not None]
    names = iter(distinct_names([_seedless(run) for run in runs], [run.id for run in runs]))
    series = [model.name if model.run is None else next(names) for model in models]
    return under_given_names(series, [model.name if model.named else None for model in models])


def _seedless(run: StoredRun) -> dict[str, Any]:
    return {key: value for key, value in told(run).items() if key != "seed"}


def _put_table(table: Table, wanted: Sequence[str], put: Any) -> None:
    """Add a tidy table with one row per layer and seed. Columns other than the quantities distinguish series."""
    first = table.rows[0]
    words = [c for c in first if c not in (*OF_A_LAYER, "seed", "run") and not _is_numeric(table, c)]
    words += [c for c in ("depth", "width") if c in first]
    layers = list(dict.fromkeys(row["layer"] for row in table.rows))
    for row in table.rows:
        series = ", ".join(_word(c, row[c]) for c in words if row[c] not in ("", None))
        depth = int(row["layer"]) if isinstance(row["layer"], float) else layers.index(row["layer"])
        for quantity in wanted:
            put(quantity, series or table.name, depth, _word("", row["layer"]), row.get(quantity), row.get("run"))


def _word(column: str, value: Any) -> str:
    return f"{column} {value:g}".strip() if isinstance(value, float) else str(value)


def _is_numeric(table: Table, column: str) -> bool:
    return all(row[column] is None or isinstance(row[column], float) for row in table.rows)


def _points(found: Mapping[tuple[int, str], list[float]]) -> list[dict[str, Any]]:
    points = []
    for (depth, layer), values in sorted(found.items()):
        low, high = bootstrap_interval(np.array(values)) if len(values) > 1 else (None, None)
        points.append({"depth": depth, "layer": layer, "mean": float(np.mean(values)), "low": low, "high": high,
                       "seeds": len(values)})  # fmt: skip
    return points


def score_scatter(
    runs: Sequence[StoredRun], tables: Iterable[Table], names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """One point per run with the ID and OOD means of its metrics. `names` maps run ids to names given by the user."""
    points = []
    given = [(names or {}).get(run.id) for run in runs]
    named = under_given_names([run.config.seedless_hash for run in runs], given)
    for run, kind, made in zip(runs, named, groups_of([_seedless(run) for run in runs])):
        name = made if kind == run.config.seedless_hash else kind
        points.append({"series": (names or {}).get(run.id, name), "run": run.id, "seed": run.config.seed,
                       "values": _both_splits(run.summary)})  # fmt: skip
    known = {point["run"] for point in points}
    for table in tables:
        for row in table.rows:
            if row.get("run") in known and row.get("run") is not None:
                continue
            series = next((str(row[c]) for c in SERIES if c in row), table.name)
            points.append({"series": series, "run": row.get("run"), "seed": row.get("seed"),
                           "values": _both_splits(row)})  # fmt: skip
    points = [point for point in points if point["values"]]
    found = list(dict.fromkeys(metric for point in points for metric in point["values"]))
    ordered = [*(m for m in METRICS if m in found), *(m for m in found if m not in METRICS)]
    return {"metrics": [metric_json(metric) for metric in ordered], "points": points} if points else {}


def _both_splits(row: Mapping[str, Any]) -> dict[str, list[float]]:
    """Map metrics to their ID and OOD means, for metrics that have both."""
    found = {}
    for column, value in row.items():
        metric, other = column.removeprefix("id_"), row.get(f"ood_{column.removeprefix('id_')}")
        if metric == column or not all(isinstance(v, int | float) and math.isfinite(v) for v in (value, other)):
            continue
        if not on_log_scale(metric) or min(value, other) > 0:  # type: ignore[type-var]
            found[metric] = [value, other]
    return found


def metric_json(name: str) -> dict[str, Any]:
    """The description of a metric on the page."""
    return {"name": name, "label": axis_label(name), "log": on_log_scale(name)}


def threshold_points(tables: Iterable[Table]) -> list[dict[str, Any]]:
    """Tables of data-efficiency thresholds: one row per N (`side`) and seed with the `examples` that sufficed."""
    return [
        {"series": str(row.get("kind", table.name)), "n": row["side"], "samples": row["examples"],
         "power": _expected_power(row),
         "seed": row.get("seed"), "run": row.get("run")}
        for table in tables if table.rows and {"side", "examples", "reached"} <= set(table.rows[0])
        for row in table.rows
        if row["reached"] == "True" and all(isinstance(row[c], float) and row[c] > 0 for c in ("side", "examples"))
    ]  # fmt: skip


def _expected_power(row: Mapping[str, Any]) -> int:
    """The exponent of N that the paper expects: 1 if single-factor scenes are among the examples, 3 otherwise."""
    return 1 if row["examples"] > row.get("bumps", row["examples"]) else 3


def plain_tables(tables: Iterable[Table]) -> list[dict[str, Any]]:
    """The tables as JSON, truncated to their first rows."""
    return [
        {"name": table.name, "columns": list(table.rows[0]) if table.rows else [], "of": len(table.rows),
         "rows": [list(row.values()) for row in table.rows[:SHOWN_ROWS]], "meanings": None}
        for table in tables
    ]  # fmt: skip
