"""Errors: mean squared error of every cell, and of each split relative to the variance of the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from matplotlib.figure import Figure

from recombine.core.statistics import ratio
from recombine.diagnostics.drawing import map_over_grid
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.numerics.grids import cells_per_block
from recombine.diagnostics.page_content import PageContent
from recombine.diagnostics.part import PARTS, Need, Part
from recombine.plotting.grids import landscape
from recombine.plotting.style import new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis


@PARTS.register
class Errors(Part):
    """Mean squared error of every cell, and of each split relative to the variance of the truth.

    Arrays: `mse`, (cell,); NaN where a cell does not exist.
    """

    name = "errors"
    order = 20
    needs = frozenset({Need.TRUTH})
    tables: ClassVar = {
        "errors": {
            "cells": "Set of cells: all, id or ood.",
            "n_cells": "Number of cells.",
            "mse": "Mean squared error.",
            "truth_variance": "Mean square of the truth around its mean over trained cells.",
            "relative": "mse / truth_variance: 0 for correct outputs, 1 for always returning the mean.",
        }
    }

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        outputs, truth = inputs.outputs.flatten(1), inputs.known_truth
        trained = torch.from_numpy(inputs.masks.get("id", inputs.masks["all"]))
        mean = truth.mean(trained.nonzero()[:, 0])
        mse = torch.full((len(outputs),), torch.nan, dtype=torch.float64)
        spread = mse.clone()
        for cells in inputs.subject.cells.split(cells_per_block(truth.size)):
            right = truth.rows(cells).double()
            mse[cells] = (outputs[cells] - right).square().mean(1)
            spread[cells] = (right - mean).square().mean(1)
        rows = [
            {"cells": name, "n_cells": int(mask.sum()), "mse": float(mse[mask].mean()),
             "truth_variance": float(spread[mask].mean()), "relative": ratio(mse[mask].mean(), spread[mask].mean())}
            for name, mask in ((name, torch.from_numpy(mask)) for name, mask in inputs.masks.items())
            if mask.any()
        ]  # fmt: skip
        return PartResult(self.name, {"errors": rows}, {"mse": mse.numpy()})

    def summary(self, result: PartResult) -> str:
        errors = [f"{r['cells'].upper()} {r['mse']:.3g} ({r['relative']:.3g})" for r in result.rows]
        return f"mean squared error (relative to the variance of the truth): {', '.join(errors)}"

    def page(self, result: PartResult, diagnosis: Diagnosis) -> PageContent:
        return PageContent(("errors",))  # the map is among the landscapes of scores

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        figure = new_figure(4.6, 3.8)
        ax = figure.subplots()
        mse = result.arrays["mse"].reshape(diagnosis.space.shape)
        if diagnosis.holdout is None:
            picture = map_over_grid(diagnosis, mse, ax, cmap="magma")
            figure.colorbar(picture, ax=ax, label="mean squared error")
        else:
            landscape(diagnosis.holdout, mse, "mse", ax, label="mean squared error", log=True)
        shares = ", ".join(f"{r['cells'].upper()} {r['relative']:.2g}" for r in result.rows)
        ax.set_title(f"error relative to the variance of the truth:\n{shares}", fontsize=8)
        return figure
