"""Maps: the map that a factor-rendered decoder draws for every value of every factor."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from matplotlib.figure import Figure

from recombine.core.errors import Missing, NotComputable
from recombine.core.statistics import median
from recombine.diagnostics.drawing import without_ticks
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.model.observing import module_of
from recombine.diagnostics.part import PARTS, Part
from recombine.models.forced_rendering.renderer import FactorRenderer
from recombine.plotting.style import new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

TRAPPED = 0.5  # banding below which a map lies along no axis of the image
SHOWN = 6


@PARTS.register
class Maps(Part):
    """Effective rank and banding of the map of every factor value; see `FactorRenderer`.

    Arrays: `maps/<factor>`, (value, channel, row, column).
    """

    name = "maps"
    order = 75
    on_request = True
    tables: ClassVar = {
        "summary": {
            "maps": "Number of maps.",
            "effective_rank": "Mean effective rank of the maps, at least 1.",
            "banding": "Mean banding of the maps, in [0, 1]; 1 is a band along an image axis.",
            "banding_median": "Median banding.",
            "trapped": "Number of maps with a banding below 0.5.",
        },
        "values": {
            "factor": "The factor.",
            "value": "Index of its value.",
            "channel": "Index of the channel.",
            "effective_rank": "Effective rank of the map.",
            "banding": "Its banding.",
        },
    }

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        renderer = _renderer(inputs)
        with torch.no_grad():
            ranks, banding, maps = (f().cpu() for f in (renderer.effective_ranks, renderer.banding, renderer.maps))
        starts = np.cumsum([0, *renderer.factor_sizes])
        rows, arrays = [], {}
        for name, start, end in zip(inputs.space.names, starts, starts[1:]):
            arrays[f"maps/{name}"] = maps[start:end].numpy()
            rows += [
                {"factor": name, "value": value, "channel": channel,
                 "effective_rank": float(ranks[start + value, channel]),
                 "banding": float(banding[start + value, channel])}
                for value in range(end - start) for channel in range(ranks.shape[1])
            ]  # fmt: skip
        summary = {
            "maps": banding.numel(),
            "effective_rank": float(ranks.mean()),
            "banding": float(banding.mean()),
            "banding_median": median(banding.flatten().double().numpy()),
            "trapped": int((banding < TRAPPED).sum()),
        }
        return PartResult(self.name, {"summary": [summary], "values": rows}, arrays)

    def summary(self, result: PartResult) -> str:
        [row] = result.rows
        return (
            f"maps of factor values: effective rank {row['effective_rank']:.3g}, banding {row['banding']:.3g} (median "
            f"{row['banding_median']:.3g}), {row['trapped']} of {row['maps']} maps not aligned with an image axis"
        )

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """The maps of a few values of every factor."""
        maps = result.by_layer("maps")
        banding = {(r["factor"], r["value"]): r["banding"] for r in result.table("values") if r["channel"] == 0}
        shown = max(min(SHOWN, len(found)) for found in maps.values())
        figure = new_figure(1.5 * shown + 0.6, 1.6 * len(maps) + 0.4)
        axes = figure.subplots(len(maps), shown, squeeze=False)
        for ax in axes.flat:
            without_ticks(ax)
        for line, (factor, found) in zip(axes, maps.items()):
            for ax, value in zip(line, np.linspace(0, len(found) - 1, min(shown, len(found))).astype(int)):
                size = float(np.abs(found[value, 0]).max()) or 1.0
                ax.imshow(found[value, 0], cmap="RdBu_r", vmin=-size, vmax=size, origin="lower")
                ax.set_title(f"{factor} = {value}: {banding[factor, int(value)]:.2f}", fontsize=7)
        figure.suptitle("map of a value: its banding", fontsize=9)
        return figure


def _renderer(inputs: DiagnosisInputs) -> FactorRenderer:
    """The renderer of the model, if it has one for these factors."""
    module = module_of(inputs.model)
    found = [] if module is None else [m for m in module.modules() if isinstance(m, FactorRenderer)]
    if len(found) != 1 or found[0].factor_sizes != tuple(inputs.space.shape):
        raise NotComputable(Missing.NOT_APPLICABLE, "The model has no renderer with a map for every factor value.")
    return found[0]
