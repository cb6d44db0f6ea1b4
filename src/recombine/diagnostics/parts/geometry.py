"""Geometry: the metric tensor of every layer, and its scores on ID and OOD cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from recombine.core.errors import Missing, NotComputable
from recombine.diagnostics.drawing import (
    averaged_factors,
    column_by_layer,
    map_over_grid,
    panel_grid,
    short_name,
    style_layer_axis,
)
from recombine.diagnostics.findings import Absence, PartResult
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.model.layers import OUT
from recombine.diagnostics.model.truth import Truth
from recombine.diagnostics.numerics.geometry import (
    TANGENT_MEMORY,
    USE_DIFFERENCES,
    Geometry,
    factorization_map,
    metric_tensor_exact,
    metric_tensor_finite_difference,
)
from recombine.diagnostics.numerics.warp import warp
from recombine.diagnostics.page_content import LayerColumn, PageContent, PageMap
from recombine.diagnostics.part import PARTS, Need, Part
from recombine.diagnostics.request import DiagnosisRequest
from recombine.plotting.style import COLOURS, OUTLINE

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis


@PARTS.register
class GeometryPart(Part):
    """The metric tensor of every layer, and its scores on ID and OOD cells.

    Derivatives are taken along all factors except categorical ones; the fact `factors` lists them. The request selects
    the methods: `exact` derivatives, `finite difference` on the grid, or both. Maps and the overview use the first
    method. The geometry of the output is compared with that of the true images.

    Arrays: `metric/<layer>`, (cell, factor, factor), and `log_volume/<layer>`, (cell,), by the first method; those of
    a second method are called `metric by <method>/<layer>` and `log_volume by <method>/<layer>`. `true_log_volume`,
    (cell,), is that of the truth.
    """

    name = "geometry"
    order = 50
    needs = frozenset({Need.DERIVATIVES})
    reads: ClassVar = {"geometry": "methods"}
    tables: ClassVar = {
        "layers": {
            "method": "How the metric tensor was computed: exact or finite difference.",
            "layer": "Name of the layer.",
            "units": "Number of units.",
            "cells": "Set of cells: all, id or ood.",
            "n_cells": "Number of cells.",
            "log_volume": "Mean log10 of the volume element.",
            "median_condition": "Median condition number of the metric tensor.",
            "n_singular": "Cells whose volume element is 0.",
            "pair": "Which factors: all, or a pair.",
            "factorization_pointwise": "Factorization score F, mean over cells, in [0.5, 1].",
            "factorization_ratio_of_means": "F of the means over cells, in [0.5, 1].",
            "n_degenerate": "Cells at which F is 0/0; they are omitted.",
        },
        "warp": {
            "method": "How both metric tensors were computed.",
            "truth_log_volume_id": "Mean log10 volume element of the true images on ID cells.",
            "truth_log_volume_ood": "The same on OOD cells.",
            "distortion_id": "Mean |d| on ID cells, d = log10 dv of the output − log10 dv of the truth.",
            "distortion_ood": "Mean |d| on OOD cells.",
            "warp": "Mean d on OOD cells − mean d on ID cells: negative if the hold-out is shrunk.",
            "roughness_ood": "Mean |difference| of the output's log10 dv between neighbouring OOD cells.",
            "distortion_id_median": "Median |d| on ID cells.",
            "distortion_ood_median": "Median |d| on OOD cells.",
            "warp_median": "Median d on OOD cells − median d on ID cells.",
            "roughness_ood_median": "Median |difference| between neighbouring OOD cells.",
        },
    }
    layer_columns: ClassVar = {
        "factorization": LayerColumn("factorization"),
        "log_volume": LayerColumn("log10 dv OOD−ID", highest=None),
    }

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        methods = inputs.request.geometry
        result = PartResult(self.name, {"layers": [], "warp": []}, facts={"methods": list(methods)})
        result.facts["factors"] = list(inputs.space.differentiable)
        for method in methods:
            found = _geometry(inputs, method)
            result.tables["layers"] += [{"method": method, **row} for row in found.rows(inputs.masks)]
            which = "" if method == methods[0] else f" by {method}"
            for name, layer in found.layers.items():
                result.arrays[f"metric{which}/{name}"] = layer.metric
                result.arrays[f"log_volume{which}/{name}"] = layer.log_volume
            if not which:
                result.facts.update(method=method, cells_at_once=found.cells_at_once)
            result.facts["derivative_method"] = found.derivative_method or result.facts.get("derivative_method")
            try:
                true_volume = _true_log_volume(inputs, method)
                if not which:
                    result.arrays["true_log_volume"] = true_volume
                result.tables["warp"].append(_warp_row(found, true_volume, method, inputs))
            except NotComputable as error:
                result.missing[f"warp, {method}"] = Absence.of(error)
        return result

    def answers(self, facts: Mapping[str, Any], request: DiagnosisRequest) -> bool:
        return facts["methods"][0] == request.geometry[0] and set(request.geometry) <= set(facts["methods"])

    def layer_numbers(self, result: PartResult) -> dict[str, dict[str, Any]]:
        numbers: dict[str, dict[str, Any]] = {}
        by_layer: dict[str, dict[str, Any]] = {}
        for row in result.rows:
            if row["pair"] == "all" and row["method"] == result.facts["method"]:
                by_layer.setdefault(row["layer"], {})[row["cells"]] = row
        for name, found in by_layer.items():
            numbers[name] = {"factorization": found["all"]["factorization_pointwise"]}
            if "ood" in found:
                numbers[name]["log_volume"] = found["ood"]["log_volume"] - found["id"]["log_volume"]
        return numbers

    def summary(self, result: PartResult) -> str:
        scores = [numbers["factorization"] for numbers in self.layer_numbers(result).values()]
        return f"factorization F by layer: {', '.join(f'{score:.3g}' for score in scores)}"

    def page(self, result: PartResult, diagnosis: Diagnosis) -> PageContent:
        nothing = np.full(len(diagnosis.space), np.nan)
        volumes, metrics = result.by_layer("log_volume"), result.by_layer("metric")
        volume = np.stack([volumes.get(name, nothing) for name in diagnosis.layers])
        scores = [factorization_map(metrics[name]) if name in metrics else nothing for name in diagnosis.layers]
        return PageContent(
            ("layers",),
            (
                PageMap("log₁₀ dv", volume, about="how much the layer stretches a step in the plane"),
                PageMap(
                    "factorization",
                    np.stack(scores),
                    about="1: the factors move the activation in orthogonal directions"
                    if len(result.facts["factors"]) > 1
                    else "not defined: it compares two factors with derivatives, and this space has "
                    f"only {result.facts['factors'][0]}",
                    limits=(0.5, 1.0),
                ),
            ),
        )

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """log₁₀ dv of every layer over the grid, and the factorization score by layer."""
        maps = result.by_layer("log_volume")
        figure, axes = panel_grid(len(maps) + 1, 2.9, 2.8)
        for ax, (name, values) in zip(axes, maps.items()):
            known = values[~np.isnan(values)]
            low, high = np.quantile(known, [0.01, 0.99]) if len(known) else (0.0, 1.0)
            if high - low < 0.05:  # a flat map: rounding errors are no pattern
                low, high = (low + high) / 2 - 0.05, (low + high) / 2 + 0.05
            picture = map_over_grid(
                diagnosis, values.reshape(diagnosis.space.shape), ax, cmap="viridis", vmin=low, vmax=high
            )
            bar = figure.colorbar(picture, ax=ax, shrink=0.8)
            bar.ax.tick_params(labelsize=7)
            ax.set_title(short_name(name), fontsize=9)
        ax = axes[-1]
        splits = ["all"] if diagnosis.holdout is None else ["id", "ood"]
        for cells, mark, colour in zip(splits, "os", (COLOURS[0], OUTLINE)):
            wanted = {"method": result.facts["method"], "cells": cells, "pair": "all"}
            rows = [row for row in result.rows if wanted.items() <= row.items()]
            values = column_by_layer(diagnosis, rows, "factorization_pointwise")
            ax.plot(range(len(values)), values, mark + "-", color=colour, ms=4, label=cells.upper())
        style_layer_axis(ax, diagnosis.layers, "")
        ax.set_title("factorization F", fontsize=9)
        ax.set_box_aspect(1)
        ax.set_ylim(top=1.005)
        ax.legend(frameon=False, fontsize=8)
        how = f"{result.facts['method']}; hold-out in red{averaged_factors(diagnosis)}"
        figure.suptitle(f"log₁₀ volume element by layer ({how})", fontsize=10)
        return figure


def _geometry(inputs: DiagnosisInputs, method: str) -> Geometry:
    given = (inputs.model, inputs.space, inputs.encode)
    layers, memory = inputs.request.layers, inputs.request.memory
    available = inputs.available
    if method == "exact":
        return metric_tensor_exact(*given, layers=layers, memory=min(memory, TANGENT_MEMORY), available=available)
    return metric_tensor_finite_difference(*given, layers=layers, memory=memory, available=available)


def _true_log_volume(inputs: DiagnosisInputs, method: str) -> Float[np.ndarray, " cell"]:
    """log₁₀ dv of the true images: constant where they only move, smaller where they are cut off at a border."""
    truth = inputs.known_truth
    if method == "exact":
        if truth.function is None:
            raise NotComputable(
                Missing.NOT_DIFFERENTIABLE,
                f"the target is known only on the grid, so it has no derivative. {USE_DIFFERENCES}",
            )
        try:
            found = metric_tensor_exact(truth.function, inputs.space, layers=OUT, available=inputs.available)
        except NotComputable as error:
            if error.state is not Missing.NOT_DIFFERENTIABLE:
                raise
            raise NotComputable(
                Missing.NOT_DIFFERENTIABLE,
                "the target function has no derivative: by every factor it is 0 at every cell. It is detached, "
                f"rounded, constant, or computed outside torch (NumPy, .tolist(), .item()). {USE_DIFFERENCES}",
            ) from error
    else:
        looked = _Looked(truth)
        found = metric_tensor_finite_difference(looked, inputs.space, layers=OUT, available=inputs.available)
    return found[OUT].log_volume


class _Looked:
    """The truth as a function of factor values on the grid."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth

    def __call__(self, values: Tensor) -> Tensor:
        return self.truth.rows(self.truth.space.cells(values))


def _warp_row(
    found: Geometry, true_volume: Float[np.ndarray, " cell"], method: str, inputs: DiagnosisInputs
) -> dict[str, Any]:
    if OUT not in found.layers:
        raise NotComputable(Missing.NOT_REQUESTED, "the output is not one of the selected layers")
    return {"method": method, **warp(found[OUT].log_volume, true_volume, inputs.split)}
