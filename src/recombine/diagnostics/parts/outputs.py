"""Outputs: what the model makes of every cell, beside the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from recombine.core.errors import Missing, NotComputable
from recombine.diagnostics.drawing import as_image, draw_output
from recombine.diagnostics.findings import Absence, PartResult
from recombine.diagnostics.inputs import NO_TARGET, DiagnosisInputs
from recombine.diagnostics.part import PARTS, Part
from recombine.plotting.style import OUTLINE, new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

MOST_OUTPUTS = 2**25  # numbers kept, 128 MB


@PARTS.register
class Outputs(Part):
    """What the model makes of every cell, beside the truth: what a reader wants to see first.

    Arrays: `output` and `truth`, (cell, …).
    """

    name = "outputs"
    order = 10
    tables: ClassVar = {
        "range": {
            "cells": "Which cells: all, id or ood.",
            "n_cells": "How many they are.",
            "least": "Smallest number in their outputs.",
            "mean": "Mean over their outputs.",
            "most": "Largest number in their outputs.",
        }
    }

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        outputs, truth = inputs.outputs, inputs.truth
        if outputs.numel() > MOST_OUTPUTS:
            raise NotComputable(
                Missing.TOO_LARGE, f"{len(outputs)} outputs of {outputs[0].numel()} numbers are too many to keep."
            )
        rows = [
            {"cells": name, "n_cells": int(mask.sum()), "least": float(here.min()), "mean": float(here.double().mean()),
             "most": float(here.max())}
            for name, mask in inputs.masks.items() if mask.any()
            for here in [outputs[torch.from_numpy(mask)]]
        ]  # fmt: skip
        arrays = {"output": outputs.float().numpy()}
        if truth is not None:
            arrays["truth"] = truth.whole().float().numpy()
        missing = {} if truth is not None else {"truth": Absence(Missing.NO_TRUTH, NO_TARGET)}
        return PartResult(self.name, {"range": rows}, arrays, missing=missing)

    def summary(self, result: PartResult) -> str:
        [row] = [row for row in result.rows if row["cells"] == "all"]
        return f"outputs from {row['least']:.3g} to {row['most']:.3g}"

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """A few cells, spread over the trained and the held-out ones: truth above output."""
        held = diagnosis.held_out
        chosen = np.concatenate([cells[np.linspace(0, len(cells) - 1, 4).astype(int)]
                                 for cells in (np.flatnonzero(~held), np.flatnonzero(held)) if len(cells)])  # fmt: skip
        shown = {key: result.arrays[key][chosen] for key in ("truth", "output") if key in result.arrays}
        images = as_image(shown["output"][0]) is not None  # curves need room for the truth, pictures are clipped
        low, high = (float(bound([bound(shown[key]) for key in (("output",) if images else shown)]))
                     for bound in (np.min, np.max))  # fmt: skip
        figure = new_figure(1.2 * len(chosen) + 0.6, 1.35 * len(shown) + 0.5)
        axes = figure.subplots(len(shown), len(chosen), squeeze=False)
        places = diagnosis.space.values(torch.from_numpy(chosen)).tolist()
        for row, (key, images) in enumerate(shown.items()):
            for column, image in enumerate(images):
                ax = axes[row, column]
                draw_output(ax, image, Normalize(low, high))
                for spine in ax.spines.values():
                    spine.set_color(OUTLINE if held[chosen[column]] else "0.6")
                if row == 0:
                    ax.set_title(", ".join(f"{v:.4g}" for v in places[column]), fontsize=8)
            axes[row, 0].set_ylabel(key)
        return figure
