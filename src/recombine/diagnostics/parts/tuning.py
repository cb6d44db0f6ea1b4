"""Tuning: do units respond to one factor (stripes over the plane) or to a conjunction (bumps)?"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from matplotlib.figure import Figure

from recombine.core.seeds import generator
from recombine.diagnostics.drawing import (
    averaged_factors,
    column_by_layer,
    map_over_grid,
    short_name,
    style_layer_axis,
    without_ticks,
)
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.layer_activations import LayerActivations
from recombine.diagnostics.numerics.tuning import TuningCurves, tuning_curves, unit_maps
from recombine.diagnostics.page_content import LayerColumn, Packer
from recombine.diagnostics.part import PARTS, LayerPart
from recombine.plotting.style import COLOURS, new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

TYPICAL_UNITS = 4
STRONGEST_UNITS = 8
SAMPLED_UNITS = 128  # stored with their maps, for browsing
SAMPLED_NUMBERS = 2**21  # in the maps of one layer, at most
SHAPES: tuple[Literal["stripe", "bump"], ...] = ("stripe", "bump")
MOST_CURVES = 12  # layers with their own tuning maps


@PARTS.register
class Tuning(LayerPart):
    """Stripe and bump index of every unit, with the maps of typical and of sampled units.

    Arrays by layer: `stripe`, `bump` (unit,); `stripe maps`, `bump maps`, `strongest maps` (of the greatest variances),
    `sampled maps` (unit, factor, …); `stripe marginals of <factor>` and `bump marginals of <factor>` (unit, value).
    """

    name = "tuning"
    order = 70
    tables: ClassVar = {
        "layers": {
            "layer": "Name of the layer.",
            "units": "Number of units analysed.",
            "constant": "Number of units that do not vary over the grid.",
            "stripe": "Mean stripe index over units, in [0, 1].",
            "bump": "Mean bump index over units, in [0, 1].",
            "weighted_stripe": "Mean stripe index weighted by the units' variances.",
            "weighted_bump": "Mean bump index weighted by the units' variances.",
            "median_stripe": "Median stripe index, units counted by their variances.",
            "median_bump": "Median bump index, units counted by their variances.",
            "stripe_share": "Share of units with a stripe index of at least 0.5.",
            "bump_share": "Share of units with a bump index of at least 0.5.",
            "prefers_*": "Share of units that vary most with this factor.",
        },
        "typical": {
            "layer": "Name of the layer.",
            "kind": "stripe or bump.",
            "index": "The unit's index of that kind.",
            "unit": "Index of the unit in the flattened activation.",
        },
        "sampled": {
            "layer": "Name of the layer.",
            "unit": "Index of the unit in the flattened activation.",
            "stripe": "Its stripe index.",
            "bump": "Its bump index.",
            "variance": "Its variance over the grid.",
            "of_units": "Number of units of the layer.",
        },
    }
    layer_columns: ClassVar = {"stripe": LayerColumn("stripe"), "bump": LayerColumn("bump")}
    panel_items = 64  # units per layer, of the 128 that are kept

    def study(self, layer: LayerActivations, inputs: DiagnosisInputs) -> PartResult:
        inputs.check_complete("Tuning")
        space, name = inputs.space, layer.name
        curves = tuning_curves(layer.rows, space, components=layer.components if space.n_factors > 1 else None)
        summary = asdict(curves.summary())
        preferred = summary.pop("preferred")
        row = {"layer": name, **summary, **{f"prefers_{factor}": share for factor, share in preferred.items()}}
        result = PartResult(self.name, {"layers": [row], "typical": []})
        for kind in SHAPES:
            index = getattr(curves, kind)
            units = curves.most_typical(kind, TYPICAL_UNITS, strong=True)
            result.arrays[f"{kind}/{name}"] = index.astype(np.float32)
            result.arrays[f"{kind} maps/{name}"] = unit_maps(layer.rows, space, units)
            result.tables["typical"] += [
                {"layer": name, "kind": kind, "index": float(index[unit]), "unit": layer.unit_number(unit)}
                for unit in units.tolist()
            ]
            for factor, curve in curves.marginals.items():
                result.arrays[f"{kind} marginals of {factor}/{name}"] = curve[units]
        strongest = np.argsort(-curves.variance, kind="stable")[:STRONGEST_UNITS]
        result.arrays[f"strongest maps/{name}"] = unit_maps(layer.rows, space, strongest).astype(np.float32)
        units = _sampled_units(layer, inputs, curves)
        result.arrays[f"sampled maps/{name}"] = unit_maps(layer.rows, space, units).astype(np.float32)
        result.tables["sampled"] = [
            {"layer": name, "unit": layer.unit_number(unit), "stripe": float(curves.stripe[unit]),
             "bump": float(curves.bump[unit]), "variance": float(curves.variance[unit]), "of_units": layer.units}
            for unit in units
        ]  # fmt: skip
        return result

    def layer_numbers(self, result: PartResult) -> dict[str, dict[str, Any]]:
        return {row["layer"]: {"stripe": row["stripe"], "bump": row["bump"]} for row in result.rows}

    def summary(self, result: PartResult) -> str:
        indices = [f"{row['stripe']:.3g}" for row in result.rows]
        return f"stripe index by layer: {', '.join(indices)}"

    def panel(self, result: PartResult, diagnosis: Diagnosis, pack: Packer, most: int) -> dict[str, Any]:
        """Layer → the maps of some of its units, each with its own scale, and their indices."""
        found: dict[str, Any] = {}
        if "sampled" not in result.tables:
            return found
        maps = result.by_layer("sampled maps")
        for name in diagnosis.layers:
            rows = [row for row in result.table("sampled") if row["layer"] == name]
            if not rows or name not in maps:
                continue
            kept = sorted(range(len(rows)), key=lambda i: -_known(rows[i]["variance"]))[:most]
            kept.sort(key=lambda i: rows[i]["unit"])
            found[name] = {
                "maps": pack.add(maps[name].reshape(len(rows), -1)[kept], by_row=True),
                "of": rows[0]["of_units"],
                **{key: [_short(rows[i][key]) for i in kept] for key in ("unit", "stripe", "bump", "variance")},
            }
        return found

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """The most typical units of every layer, and the mean indices by layer."""
        layers = [row["layer"] for row in result.rows][:MOST_CURVES]
        typical: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in result.table("typical"):
            typical.setdefault((row["layer"], row["kind"]), []).append(row)
        most = max(len(rows) for rows in typical.values())
        figure = new_figure(2 * most * 0.95 + 4.4, 1.02 * len(layers) + 1.0)
        halves: Any = figure.subfigures(1, 2, width_ratios=[2 * most * 0.95 + 1.4, 3.0])
        left, right = halves
        axes = left.subplots(len(layers), 2 * most, squeeze=False)
        for ax in axes.flat:
            ax.axis("off")
        for row, layer in enumerate(layers):
            for side, kind in enumerate(("stripe", "bump")):
                maps = result.arrays[f"{kind} maps/{layer}"]
                for i, (unit, values) in enumerate(zip(typical.get((layer, kind), []), maps)):
                    ax = axes[row, side * most + i]
                    ax.axis("on")
                    map_over_grid(diagnosis, values, ax, outlined=False, cmap="viridis")
                    without_ticks(ax)
                    ax.set_title(f"{unit['unit']}: {unit['index']:.2f}", fontsize=6.5, pad=2)
            axes[row, 0].axis("on")
            without_ticks(axes[row, 0])
            axes[row, 0].set_ylabel(short_name(layer), rotation=0, ha="right", va="center", fontsize=8)
        left.suptitle("most stripe-like units (left half), most bump-like ones (right half); unit: index"
                      + averaged_factors(diagnosis).replace("; ", "\n"), fontsize=9)  # fmt: skip
        ax = right.subplots()
        for i, kind in enumerate(("stripe", "bump")):
            values = column_by_layer(diagnosis, result.rows, kind)
            ax.plot(range(len(values)), values, "os"[i] + "-", color=COLOURS[i], ms=4, label=f"{kind} index")
        style_layer_axis(ax, diagnosis.layers, "mean over units")
        ax.set_ylim(-0.03, 1.03)
        ax.legend(frameon=False, fontsize=8)
        return figure


def _sampled_units(layer: LayerActivations, inputs: DiagnosisInputs, curves: TuningCurves) -> list[int]:
    """The most typical units and a random sample of the others, up to the number of stored maps."""
    most = max(1, min(SAMPLED_UNITS, SAMPLED_NUMBERS // len(inputs.space)))
    typical = [unit for kind in SHAPES for unit in curves.most_typical(kind, TYPICAL_UNITS, strong=True).tolist()]
    drawn = torch.randperm(layer.rows.shape[1], generator=generator(inputs.seed, "sampled units", layer.name)).tolist()
    return sorted(list(dict.fromkeys([*typical, *drawn]))[:most])


def _known(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _short(value: int | float) -> int | float | None:
    return value if isinstance(value, int) else None if math.isnan(value) else float(f"{value:.4g}")
