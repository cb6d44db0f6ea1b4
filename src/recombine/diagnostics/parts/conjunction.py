"""Conjunction: are unseen outputs sums of single-factor scenes, or the composed scene?"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from matplotlib.figure import Figure

from recombine.core.errors import Missing, NotComputable
from recombine.core.scenes import Scene
from recombine.core.statistics import median
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.numerics.conjunction import conjunction_scores
from recombine.diagnostics.page_content import PageContent, PageMap
from recombine.diagnostics.part import PARTS, Need, Part
from recombine.plotting.style import COLOURS, new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

SCORES = ("additive", "composed", "baseline")


@PARTS.register
class ConjunctionPart(Part):
    """Cosine of every OOD output with the sum of its single-factor scenes and with the true scene.

    For decoders that were trained on single-factor scenes (Liang et al. 2025, Sec. 5). Only scenes that can leave
    factors out have single-factor scenes.
    """

    name = "conjunction"
    order = 35
    on_request = True
    needs = frozenset({Need.TRUTH, Need.HOLDOUT})
    tables: ClassVar = {
        "summary": {
            "n_cells": "Number of OOD cells.",
            "additive": "Cosine of the output with the sum of the single-factor scenes, mean over cells.",
            "composed": "Cosine of the output with the true scene, mean over cells.",
            "baseline": "Cosine of the true scene with that sum, mean over cells.",
            "additive_median": "Median over cells of the cosine with the sum.",
            "composed_median": "Median over cells of the cosine with the true scene.",
        },
        "cells": {
            "cell": "Index of the OOD cell.",
            "additive": "Cosine of its output with the sum of the single-factor scenes; NaN for a blank output.",
            "composed": "Cosine of its output with the true scene.",
            "baseline": "Cosine of the true scene with the sum.",
        },
    }

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        scene = inputs.known_truth.function
        if not isinstance(scene, Scene) or not scene.has_absent:
            raise NotComputable(Missing.NOT_APPLICABLE, "The target is not a scene that supports absent factors.")
        cells = inputs.split.ood_cells
        values = inputs.subject.values(cells)
        scores = conjunction_scores(scene, values, inputs.outputs[cells])
        rows = [
            {"cell": cell, **dict(zip(SCORES, map(float, score)))}
            for cell, score in zip(cells.tolist(), torch.stack(scores, 1).tolist())
        ]
        summary = {name: float(score.mean()) for name, score in zip(SCORES, scores)}
        summary |= {f"{name}_median": median(score.numpy()) for name, score in zip(SCORES[:2], scores)}
        return PartResult(self.name, {"summary": [{"n_cells": len(cells), **summary}], "cells": rows})

    def summary(self, result: PartResult) -> str:
        [row] = result.rows
        return (
            f"cosine of unseen outputs with the sum of single-factor scenes {row['additive']:.3g}, with the true scene "
            f"{row['composed']:.3g} (true scene with the sum: {row['baseline']:.3g})"
        )

    def page(self, result: PartResult, diagnosis: Diagnosis) -> PageContent:
        maps = []
        titles = {"additive": "cosine with the sum of single-factor scenes", "composed": "cosine with the true scene"}
        for name, title in titles.items():
            values = np.full(len(diagnosis.space), np.nan)
            for row in result.table("cells"):
                values[row["cell"]] = row[name]
            maps.append(PageMap(title, values))
        return PageContent(("summary",), tuple(maps))

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """Both cosines of every OOD cell."""
        figure = new_figure(4.2, 4.0)
        ax = figure.subplots()
        rows = result.table("cells")
        ax.scatter([r["additive"] for r in rows], [r["composed"] for r in rows], s=9, alpha=0.6, color=COLOURS[0])
        ax.plot([0, 1], [0, 1], color="0.6", lw=0.8, ls="--")
        ax.axvline(result.rows[0]["baseline"], color="0.6", lw=0.8, ls=":", label="true scenes")
        ax.set_xlabel("cosine with the sum of single-factor scenes", fontsize=9)
        ax.set_ylabel("cosine with the true scene", fontsize=9)
        ax.legend(frameon=False, fontsize=8)
        return figure
