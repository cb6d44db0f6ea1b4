"""Free weights: how much of an unseen output does the best nonnegative sum of trained outputs explain?"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from matplotlib.figure import Figure

from recombine.core.statistics import median
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.numerics.nonnegative_superposition import nonnegative_superposition
from recombine.diagnostics.page_content import PageContent, PageMap
from recombine.diagnostics.part import PARTS, Need, Part
from recombine.plotting.style import COLOURS, new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

LABELS = {"share": "output", "truth": "truth instead of the output", "unrelated": "by unrelated trained cells",
          "trained": "trained outputs"}  # fmt: skip


@PARTS.register
class FreeWeights(Part):
    """Share of every OOD output that the best sum of trained outputs differing in one factor explains, with controls.

    See `recombine.diagnostics.numerics.nonnegative_superposition`. The superposition part classifies cells; this one
    has the statistic and the controls that decide whether outputs are sums of all or some of the memories.
    """

    name = "free_weights"
    order = 33
    on_request = True
    needs = frozenset({Need.TRUTH, Need.HOLDOUT})
    tables: ClassVar = {
        "summary": {
            "n_cells": "Number of OOD cells.",
            "share": "Share of the output's energy that the best sum explains, median over cells, in [0, 1].",
            "truth": "The same for the truth instead of the output: the share for correct outputs.",
            "unrelated": "The same with equally many trained cells that share no value: the effect of free weights.",
            "trained": "The same for trained outputs with a hole of the same size around them.",
            "blank": "Share of cells whose outputs equal the mean trained output.",
        },
        "cells": {
            "cell": "Index of the OOD cell.",
            "share": "Share of its output's energy that the best sum explains; NaN if it is blank.",
            "truth": "The same for the truth.",
            "unrelated": "The same with unrelated trained cells.",
            "trained": "The same for a randomly chosen trained cell.",
            "blank": "Whether its output is blank.",
        },
    }

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        found = nonnegative_superposition(
            inputs.outputs, inputs.space, inputs.split,
            truth=inputs.known_truth, most_cells=len(inputs.space), seed=inputs.seed,
        )  # fmt: skip
        columns = {name: getattr(found, name) for name in LABELS}
        summary = {name: median(column) for name, column in columns.items()}
        rows = [
            {"cell": int(cell), **{name: float(c[i]) for name, c in columns.items()}, "blank": bool(found.blank[i])}
            for i, cell in enumerate(found.cells)
        ]
        blank = float(found.blank.mean()) if len(found.blank) else float("nan")
        return PartResult(self.name, {"summary": [{"n_cells": len(rows), **summary, "blank": blank}], "cells": rows})

    def summary(self, result: PartResult) -> str:
        [row] = result.rows
        controls = ", ".join(f"{name} {row[name]:.3g}" for name in ("truth", "unrelated", "trained"))
        return (
            f"share of unseen outputs explained by sums of trained outputs: {row['share']:.3g} (controls: {controls})"
        )

    def page(self, result: PartResult, diagnosis: Diagnosis) -> PageContent:
        shares = np.full(len(diagnosis.space), np.nan)
        for row in result.table("cells"):
            shares[row["cell"]] = row["share"]
        return PageContent(("summary",), (PageMap("share explained by the best sum of trained outputs", shares),))

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """Distributions over OOD cells."""
        figure = new_figure(4.8, 3.4)
        ax = figure.subplots()
        for (name, label), colour in zip(LABELS.items(), COLOURS):
            values = sorted(row[name] for row in result.table("cells") if not np.isnan(row[name]))
            if values:
                ax.step(values, (np.arange(len(values)) + 1) / len(values), where="post", color=colour, label=label)
        ax.set_xlim(-0.02, 1.02)
        ax.set_xlabel("share of energy explained", fontsize=9)
        ax.set_ylabel("share of OOD cells at or below", fontsize=9)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(frameon=False, fontsize=8)
        return figure
