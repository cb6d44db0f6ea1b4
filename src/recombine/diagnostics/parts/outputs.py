"""Outputs: the model's output and the truth for every cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from matplotlib.figure import Figure

from recombine.core.errors import Missing, NotComputable
from recombine.core.images import tone_of
from recombine.diagnostics.findings import Absence, PartResult
from recombine.diagnostics.inputs import NO_TARGET, DiagnosisInputs
from recombine.diagnostics.part import PARTS, Part
from recombine.plotting.images import show_output
from recombine.plotting.style import new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

MOST_OUTPUTS = 2**25  # numbers kept, 128 MB


@PARTS.register
class Outputs(Part):
    """The model's output and the truth for every cell.

    Arrays: `output` and `truth`, (cell, …); NaN where a cell does not exist.
    """

    name = "outputs"
    order = 10
    tables: ClassVar = {
        "range": {
            "cells": "Set of cells: all, id or ood.",
            "n_cells": "Number of cells.",
            "least": "Smallest number in their outputs.",
            "mean": "Mean over their outputs.",
            "most": "Largest number in their outputs.",
        }
    }

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        outputs, truth = inputs.outputs, inputs.truth
        if outputs.numel() > MOST_OUTPUTS:
            raise NotComputable(
                Missing.TOO_LARGE, f"{len(outputs)} outputs of {outputs[0].numel()} numbers are too large to store."
            )
        rows = [
            {"cells": name, "n_cells": int(mask.sum()), "least": float(here.min()), "mean": float(here.double().mean()),
             "most": float(here.max())}
            for name, mask in inputs.masks.items() if mask.any()
            for here in [outputs[torch.from_numpy(mask)]]
        ]  # fmt: skip
        cells = inputs.subject.cells
        arrays = {"output": np.full(outputs.shape, np.nan, dtype=np.float32)}
        arrays["output"][cells] = outputs[cells].numpy()
        if truth is not None:
            arrays["truth"] = np.full(outputs.shape, np.nan, dtype=np.float32)
            arrays["truth"][cells] = truth.rows(cells).reshape(-1, *truth.shape).numpy()
        missing = {} if truth is not None else {"truth": Absence(Missing.NO_TRUTH, NO_TARGET)}
        return PartResult(self.name, {"range": rows}, arrays, missing=missing)

    def summary(self, result: PartResult) -> str:
        [row] = [row for row in result.rows if row["cells"] == "all"]
        return f"outputs from {row['least']:.3g} to {row['most']:.3g}"

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """A few trained and held-out cells, with the truth above the output."""
        exist = np.flatnonzero(~np.isnan(result.arrays["output"]).reshape(len(diagnosis.space), -1).all(1))
        held = diagnosis.held_out[exist]
        chosen = np.concatenate([cells[np.linspace(0, len(cells) - 1, 4).astype(int)]
                                 for cells in (exist[~held], exist[held]) if len(cells)])  # fmt: skip
        shown = {key: result.arrays[key][chosen] for key in ("truth", "output") if key in result.arrays}
        tone = tone_of(np.concatenate(list(shown.values())), diagnosis.facts["value_range"])
        figure = new_figure(1.2 * len(chosen) + 0.6, 1.35 * len(shown) + 0.5)
        axes = figure.subplots(len(shown), len(chosen), squeeze=False)
        for row, (key, outputs) in enumerate(shown.items()):
            for column, (cell, output) in enumerate(zip(chosen.tolist(), outputs)):
                show_output(
                    axes[row, column],
                    output,
                    diagnosis.space.label(cell) if row == 0 else "",
                    held_out=bool(diagnosis.held_out[cell]),
                    row_0=diagnosis.facts["row_0"],
                    tone=tone,
                )
            axes[row, 0].set_ylabel(key)
        return figure
