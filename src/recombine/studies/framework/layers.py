"""Layer-by-layer results of runs, read from their stored diagnoses: probes, factorization and volume element.

```python
rows = layer_rows(diagnosis)        # one row per layer
volumes(diagnosis)                  # layer number → log₁₀ dv of every cell
warp_row(diagnosis)                 # deviation of the output's dv from that of the true images
```
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.model.layers import IN, OUT
from recombine.diagnostics.request import DiagnosisRequest
from recombine.studies.framework.inference import rank_correlation

EXACT, DIFFERENCES = "exact", "finite difference"
REQUEST = DiagnosisRequest(parts=("geometry", "probes"), geometry=(EXACT, DIFFERENCES))
Row = dict[str, Any]


def layer_rows(diagnosis: Diagnosis) -> list[Row]:
    """One row per layer.

    The columns are its number (0 is the code), name and kind (in, hidden, out), both definitions of factorization from
    exact derivatives and from finite differences, mean log₁₀ dv on OOD minus ID cells, and R² of the probes (mean over
    factors).
    """
    return [
        {"layer": number, "name": name, "kind": {IN: "in", OUT: "out"}.get(name, "hidden"),
         **_geometry(diagnosis, name), **_probes(diagnosis, name)}
        for number, name in enumerate(diagnosis.layers)
    ]  # fmt: skip


def _geometry(diagnosis: Diagnosis, layer: str) -> dict[str, float]:
    of = {
        (row["method"], row["cells"]): row
        for row in diagnosis["geometry"].table("layers")
        if row["layer"] == layer and row["pair"] == "all"
    }
    exact, coarse = of[EXACT, "all"], of[DIFFERENCES, "all"]
    return {
        "factorization": exact["factorization_pointwise"],
        "factorization_ratio_of_means": exact["factorization_ratio_of_means"],
        "factorization_ood": of[EXACT, "ood"]["factorization_pointwise"],
        "factorization_differences": coarse["factorization_pointwise"],
        "factorization_differences_ratio_of_means": coarse["factorization_ratio_of_means"],
        "log_volume": of[EXACT, "ood"]["log_volume"] - of[EXACT, "id"]["log_volume"],
    }


def _probes(diagnosis: Diagnosis, layer: str) -> dict[str, float]:
    """Mean of every score over factors."""
    rows = [row for row in diagnosis["probes"].table("scores") if row["layer"] == layer]
    scores = dict.fromkeys(row["score"] for row in rows)
    return {f"probe_{score}": float(np.mean([row["r2"] for row in rows if row["score"] == score])) for score in scores}


def volumes(diagnosis: Diagnosis) -> dict[int, Float[np.ndarray, " cell"]]:
    """Map layer numbers to log₁₀ dv of every cell, by the first requested method."""
    found = diagnosis["geometry"].by_layer("log_volume")
    return {number: found[name] for number, name in enumerate(diagnosis.layers)}


def warp_row(diagnosis: Diagnosis, method: str = EXACT) -> dict[str, float]:
    """Distortion, warp and roughness of the output: means and medians. See `recombine.diagnostics.numerics.warp`."""
    [row] = [row for row in diagnosis["geometry"].table("warp") if row["method"] == method]
    return {name: value for name, value in row.items() if name != "method"}


def before_output(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows from the code to the last hidden layer."""
    return [row for row in rows if row["kind"] != "out"]


def loss_of_factorization(rows: Sequence[Mapping[str, Any]], *, per_layer: bool = False) -> float:
    """F of the code minus F of the last hidden layer of a run; NaN without rows."""
    kept = before_output(rows)
    if not kept:
        return math.nan
    return (kept[0]["factorization"] - kept[-1]["factorization"]) / (kept[-1]["layer"] if per_layer else 1)


def fall_of_factorization(rows: Sequence[Mapping[str, Any]]) -> float:
    """F of the code minus the lowest F of a hidden layer, with F as in the original experiments."""
    scores = [row["factorization_differences_ratio_of_means"] for row in before_output(rows)]
    return scores[0] - min(scores[1:])


def trend(rows: Sequence[Mapping[str, Any]], column: str) -> float:
    """Spearman's rank correlation of a score with the layer number, from code to last hidden layer; 0 if constant."""
    kept = before_output(rows)
    return rank_correlation([row["layer"] for row in kept], [row[column] for row in kept])
