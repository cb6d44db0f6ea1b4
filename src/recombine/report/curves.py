"""Charts over runs and seeds: quantities by layer, ID against OOD error, and how thresholds grow with N."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from recombine.diagnostics.overview import by_layer
from recombine.report.collect import Model, Table
from recombine.report.labels import distinct_names, groups_of, under_given_names
from recombine.runs.store import StoredRun
from recombine.scoring.intervals import bootstrap_interval

QUANTITIES = {
    "factorization": "factorization",
    "probe_in_sample": "linear probe R², in sample",
    "probe_id_to_ood": "linear probe R², ID → OOD",
    "probe_ridge_ood": "ridge probe R², ID → OOD",
    "log_volume": "log₁₀ dv, OOD − ID",
}
ALIASES = {  # columns of tidy tables that mean the same
    "factorization_pointwise": "factorization", "in_sample": "probe_in_sample", "id_to_ood": "probe_id_to_ood",
    "ridge_ood": "probe_ridge_ood", "r2": "probe_in_sample", "r2_in_sample": "probe_in_sample",
    "r2_id_to_ood": "probe_id_to_ood", "r2_ridge_ood": "probe_ridge_ood",
}  # fmt: skip
SIDE = ("side", "N", "n")
BUMPS = ("examples", "bumps", "threshold", "samples")
SERIES = ("series", "variant", "data", "kind", "name")
OF_A_LAYER = ("layer", "name", "kind")  # columns that say which layer a row is about
SHOWN_ROWS = 300


def layer_curves(models: Sequence[Model], tables: Iterable[Table]) -> list[dict[str, Any]]:
    """A chart per quantity: series → points (layer, mean, interval over seeds, number of seeds)."""
    values: dict[str, dict[str, dict[tuple[int, str], list[float]]]] = {}

    known: set[tuple[Any, ...]] = set()  # tables may share runs

    def put(quantity: str, series: str, depth: int, layer: str, value: Any, run: Any = None) -> None:
        if run is not None and (quantity, run, depth) in known:
            return
        known.add((quantity, run, depth))
        if isinstance(value, int | float) and math.isfinite(value):
            values.setdefault(quantity, {}).setdefault(series, {}).setdefault((depth, layer), []).append(float(value))

    for model, series in zip(models, _series(models)):
        for depth, row in enumerate(by_layer(model.diagnosis)):
            scores = [r["r2"] for r in model.diagnosis["probes"].rows
                      if r["layer"] == row["layer"] and r["score"] == "in_sample"
                      ] if model.diagnosis["probes"].computed else []  # fmt: skip
            for quantity, value in [*row.items(), ("probe_in_sample", float(np.mean(scores)) if scores else None)]:
                if quantity in QUANTITIES:
                    put(quantity, series, depth, row["layer"], value)
    for table in tables:
        if table.rows and "layer" in table.rows[0] and "seed" in table.rows[0]:
            _put_table(table, put)
    return [
        {
            "quantity": quantity,
            "title": title,
            "series": [{"name": name, "points": _points(found)} for name, found in values[quantity].items()],
        }
        for quantity, title in QUANTITIES.items()
        if quantity in values
    ]


def _series(models: Sequence[Model]) -> list[str]:
    """Runs that differ only in their seed are one series, under the name given to one of them; other models are one
    each."""
    runs = [model.run for model in models if model.run is not None]
    names = iter(distinct_names([_seedless(run) for run in runs], [run.id for run in runs]))
    series = [model.name if model.run is None else next(names) for model in models]
    return under_given_names(series, [model.name if model.named else None for model in models])


def _seedless(run: StoredRun) -> dict[str, Any]:
    return {key: value for key, value in run.config.to_dict().items() if key != "seed"}


def _put_table(table: Table, put: Any) -> None:
    """A tidy table with a row per layer and seed: numbers are quantities, what else differs makes series."""
    first = table.rows[0]
    quantities = {c: ALIASES.get(c, c) for c in first if ALIASES.get(c, c) in QUANTITIES}
    words = [c for c in first if c not in (*OF_A_LAYER, "seed", "run") and not _is_numeric(table, c)]
    words += [c for c in ("depth", "width") if c in first]
    layers = list(dict.fromkeys(row["layer"] for row in table.rows))
    for row in table.rows:
        if "score" in first and "r2" in first:
            quantities = {"r2": ALIASES.get(str(row["score"]), f"probe_{row['score']}")}
        series = ", ".join(_word(c, row[c]) for c in words if row[c] not in ("", None) and c not in ("score", "factor"))
        depth = int(row["layer"]) if isinstance(row["layer"], float) else layers.index(row["layer"])
        for column, quantity in quantities.items():
            put(quantity, series or table.name, depth, _word("", row["layer"]), row[column], row.get("run"))
        ood, trained = row.get("log_volume_ood"), row.get("log_volume_id")
        if isinstance(ood, float) and isinstance(trained, float):
            put("log_volume", series or table.name, depth, _word("", row["layer"]), ood - trained, row.get("run"))


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


def error_scatter(
    runs: Sequence[StoredRun], tables: Iterable[Table], names: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """A point per run: ID and OOD error, what it is, and the run it opens. `names`: those given to runs, by id."""
    points = []
    shown = [run for run in runs if run.summary.get("id_mse") and run.summary.get("ood_mse")]
    given = [(names or {}).get(run.id) for run in shown]
    named = under_given_names([run.config.seedless_hash for run in shown], given)
    for run, kind, made in zip(shown, named, groups_of([_seedless(run) for run in shown])):
        name = made if kind == run.config.seedless_hash else kind
        points.append({"series": (names or {}).get(run.id, name), "run": run.id, "seed": run.config.seed,
                       "id": run.summary["id_mse"], "ood": run.summary["ood_mse"]})  # fmt: skip
    known = {point["run"] for point in points}
    for table in tables:
        for row in table.rows:
            if not {"id_mse", "ood_mse"} <= set(row):
                break
            if (row["id_mse"] or 0) > 0 and (row["ood_mse"] or 0) > 0 and row.get("run") not in known:
                series = next((str(row[c]) for c in ("variant", "series", "condition", "name") if c in row), table.name)
                points.append({"series": series, "run": row.get("run"), "seed": row.get("seed"),
                               "id": row["id_mse"], "ood": row["ood_mse"]})  # fmt: skip
    return points


def threshold_points(tables: Iterable[Table]) -> list[dict[str, Any]]:
    """Tables of data-efficiency thresholds: N, how many samples sufficed, in which series."""
    points = []
    for table in tables:
        side, bumps = (next((c for c in names if table.rows and c in table.rows[0]), None) for names in (SIDE, BUMPS))
        if side is None or bumps is None or "ood_localization" in table.rows[0]:  # the last: what a search tried
            continue
        for row in table.rows:
            if str(row.get("reached", True)).lower() in ("false", "0", "0.0"):
                continue
            if isinstance(row[side], float) and isinstance(row[bumps], float) and row[side] > 0 and row[bumps] > 0:
                if "stripes" in row:
                    with_stripes = str(row["stripes"]).lower() in ("true", "1", "1.0")
                    series = "stripes + bumps" if with_stripes else "bumps"
                else:
                    series = next((str(row[c]) for c in SERIES if c in row), table.name)
                points.append({"series": series, "n": row[side], "samples": row[bumps], "seed": row.get("seed"),
                               "run": row.get("run")})  # fmt: skip
    return points


def plain_tables(tables: Iterable[Table]) -> list[dict[str, Any]]:
    """The tables themselves, the first rows of long ones."""
    return [
        {"name": table.name, "columns": list(table.rows[0]) if table.rows else [], "of": len(table.rows),
         "rows": [list(row.values()) for row in table.rows[:SHOWN_ROWS]]}
        for table in tables
    ]  # fmt: skip
