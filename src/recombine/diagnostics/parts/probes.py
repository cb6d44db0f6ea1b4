"""Probes: can the factors be read off a layer by a linear map?"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.core.errors import Missing
from recombine.diagnostics.drawing import column_by_layer, style_layer_axis
from recombine.diagnostics.findings import Absence, PartResult
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.layer_activations import LayerActivations
from recombine.diagnostics.numerics.probes import MOST_CELLS, compact_features, probes_of_features
from recombine.diagnostics.page_content import LayerColumn, PageContent, PageMap
from recombine.diagnostics.part import PARTS, LayerPart
from recombine.plotting.style import COLOURS, new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

SCORE_LABELS = {"in_sample": "in sample", "id_to_ood": "ID → OOD", "ridge_cv": "ridge, within ID",
                "ridge_ood": "ridge, ID → OOD"}  # fmt: skip

_OVERVIEW = (  # score, column, and its name in the overview by layer
    ("in_sample", "r2", "probe_in_sample"),
    ("id_to_ood", "r2", "probe_id_to_ood"),
    ("ridge_ood", "r2", "probe_ridge_ood"),
    ("ridge_ood", "accuracy", "probe_accuracy_ood"),
)


@PARTS.register
class ProbesPart(LayerPart):
    """R² or accuracy of linear probes for every layer and factor; see `recombine.diagnostics.numerics.probes`.

    Arrays: `cells`, the cells probed, ID first; `error/<layer>`, (factor, cell), the ridge probe's error.
    """

    name = "probes"
    order = 60
    tables: ClassVar = {
        "scores": {
            "layer": "Name of the layer.",
            "units": "Number of units.",
            "factor": "Factor that is predicted.",
            "score": "How it is fitted and scored: in_sample, id_to_ood, ridge_cv or ridge_ood.",
            "r2": "R², at most 1; 0 if no better than the mean. NaN for a categorical factor.",
            "fitted": "Number of cells used for the fit.",
            "scored": "Number of cells that were scored.",
            "penalty": "Penalty of the ridge regression.",
            "accuracy": "Share of right labels of a categorical factor; NaN for others.",
            "chance": "Accuracy of the most frequent label among the fitted cells; NaN for other factors.",
            "missing": "State of a missing score; empty if there is a score.",
        }
    }
    layer_columns: ClassVar = {
        "probe_in_sample": LayerColumn("probe in sample", cut_below=-1.0),
        "probe_id_to_ood": LayerColumn("probe ID→OOD", cut_below=-1.0),
        "probe_ridge_ood": LayerColumn("ridge ID→OOD", cut_below=-1.0),
        "probe_accuracy_ood": LayerColumn("accuracy ID→OOD"),
    }

    def study(self, layer: LayerActivations, inputs: DiagnosisInputs) -> PartResult:
        cells = inputs.draw_cells(MOST_CELLS)
        n_id = len(cells) if inputs.holdout is None else int(inputs.holdout.id_mask.ravel()[cells.numpy()].sum())
        if layer.drawn is None:
            features = layer.features(cells)
        else:  # all units: the sampled cells always fit
            alone = replace(inputs.subject, layers={layer.name: layer.layer})
            features = compact_features(alone, cells, memory=inputs.request.memory // 2)[layer.name]
        found = probes_of_features(
            {layer.name: features}, {layer.name: layer.units}, inputs.space, cells, n_id, seed=inputs.seed
        )
        rows = [asdict(probe) for probe in found.table]
        missing = {
            f"{row['score']} of {row['factor']}": Absence(Missing(row["missing"]), row["reason"])
            for row in rows
            if row["missing"]
        }
        rows = [{key: value for key, value in row.items() if key != "reason"} for row in rows]
        arrays = {"cells": found.cells, f"error/{layer.name}": found.errors[layer.name].astype(np.float32)}
        existing = len(inputs.subject.cells)
        facts = {"cells": len(cells), "grid_cells": existing, "drawn": len(cells) < existing}
        facts["categorical"] = [name for name, factor in inputs.space.factors.items() if factor.categorical]
        return PartResult(self.name, {"scores": rows}, arrays, facts, missing)

    def layer_numbers(self, result: PartResult) -> dict[str, dict[str, Any]]:
        numbers: dict[str, dict[str, Any]] = {}
        for score, column, key in _OVERVIEW:
            by_layer: dict[str, list[float]] = {}
            for row in result.rows:
                labelled = row["factor"] in result.facts["categorical"]
                if row["score"] == score and labelled == (column == "accuracy"):
                    by_layer.setdefault(row["layer"], []).append(row[column])
            for name, found in by_layer.items():
                numbers.setdefault(name, {})[key] = sum(found) / len(found)
        return numbers

    def summary(self, result: PartResult) -> str:
        lines = []
        for _, column, key in _OVERVIEW[2:]:
            scores = [row[key] for row in self.layer_numbers(result).values() if key in row]
            what = "R²" if column == "r2" else "accuracy"
            if scores:
                lines.append(f"{what} of ridge probes, ID → OOD, by layer: {', '.join(f'{s:.3g}' for s in scores)}")
        return "; ".join(lines)

    def page(self, result: PartResult, diagnosis: Diagnosis) -> PageContent:
        maps = []
        for axis, factor in enumerate(diagnosis.space.names):
            off = np.full((len(diagnosis.layers), len(diagnosis.space)), np.nan)
            for row, name in enumerate(diagnosis.layers):
                if f"error/{name}" in result.arrays:
                    off[row, result.arrays["cells"]] = result.arrays[f"error/{name}"][axis]
            about = "error of a linear probe at cells that its fit did not use"
            maps.append(PageMap("probe error", off, factor, about, least_steps=0.05, curve="root"))
        return PageContent(("scores",), tuple(maps))

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """A panel per score: R² of every factor by layer, or accuracy (dashed) with its chance (dotted)."""
        scores = list(dict.fromkeys(row["score"] for row in result.rows))
        figure = new_figure(2.9 * len(scores), 3.1)
        axes = np.atleast_1d(figure.subplots(1, len(scores), sharey=True))
        lowest = min([row["r2"] for row in result.rows if not math.isnan(row["r2"])], default=0.0)
        labelled = any(factor.categorical for factor in diagnosis.space.factors.values())
        for ax, score in zip(axes, scores):
            here = [row for row in result.rows if row["score"] == score]
            _draw_factors(ax, diagnosis, here)
            if all(row["missing"] for row in here):
                ax.text(0.5, 0.5, "missing", transform=ax.transAxes, ha="center", color="0.5")
            what = "R² (accuracy: dashed, chance: dotted)" if labelled else "R²"
            style_layer_axis(ax, diagnosis.layers, what if ax is axes[0] else "")
            ax.axhline(0, color="0.7", lw=0.8)
            ax.set_title(SCORE_LABELS.get(score, score), fontsize=10)
            ax.set_ylim(max(lowest - 0.05, -1.05), 1.05)
        axes[0].legend(frameon=False, fontsize=8)
        cut = "; R² below −1 is cut off" if lowest < -1.05 else ""
        figure.suptitle(f"linear probes ({result.facts['cells']} cells{cut})", fontsize=10)
        return figure


def _draw_factors(ax: Axes, diagnosis: Diagnosis, rows: list[dict[str, Any]]) -> None:
    for i, (name, factor) in enumerate(diagnosis.space.factors.items()):
        own = [row for row in rows if row["factor"] == name]
        colour, line = COLOURS[i % 8], "--" if factor.categorical else "-"
        values = column_by_layer(diagnosis, own, "accuracy" if factor.categorical else "r2")
        ax.plot(range(len(values)), values, "os^vD"[i % 5] + line, color=colour, ms=4, label=name, alpha=0.9)
        if factor.categorical:
            ax.plot(range(len(values)), column_by_layer(diagnosis, own, "chance"), ":", color=colour, lw=1)
