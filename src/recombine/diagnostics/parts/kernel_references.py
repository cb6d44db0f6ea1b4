"""Kernel references: the agreement with shared factor values of correct outputs and of perfect superpositions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from jaxtyping import Shaped
from matplotlib.figure import Figure
from torch import Tensor

from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.numerics.grids import draw_cells
from recombine.diagnostics.numerics.kernels import SIMILARITIES, agreement, gram_matrices
from recombine.diagnostics.part import PARTS, Need, Part
from recombine.plotting.style import COLOURS, new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

MOST_CELLS = 2048  # as for the part kernels, beside which these numbers stand


@PARTS.register
class KernelReferences(Part):
    """The two ends of the scale on which the agreement of the part `kernels` lies.

    A perfect superposition of an OOD cell is the mean of the true outputs of all ID cells that share a value with it;
    ID cells keep their true outputs. So do OOD cells that share no value with any ID cell.
    """

    name = "kernel_references"
    order = 45
    on_request = True
    needs = frozenset({Need.TRUTH, Need.HOLDOUT})
    tables: ClassVar = {
        "agreement": {
            "similarity": "Which similarity of outputs: cosine, l2 (with its sign changed) or overlap.",
            "right": "Pearson's r of OOD × ID similarity with the binary factorized kernel, for right outputs.",
            "superposed": "The same for perfect superpositions.",
        }
    }

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        space, holdout = inputs.space, inputs.split
        right = inputs.known_truth.rows(torch.arange(len(space)))
        cells = draw_cells(holdout, MOST_CELLS, seed=inputs.seed)
        found: dict[str, list[float]] = {similarity: [] for similarity in SIMILARITIES}
        for outputs in (right, superposed(right, inputs)):
            grams = gram_matrices(outputs, space, holdout, cells=cells, overlap_dtype=torch.float32)
            for similarity in SIMILARITIES:
                found[similarity].append(agreement(grams, similarity, draws=1, seed=inputs.seed).correlation)
        rows = [{"similarity": name, "right": ends[0], "superposed": ends[1]} for name, ends in found.items()]
        return PartResult(self.name, {"agreement": rows})

    def summary(self, result: PartResult) -> str:
        parts = [f"{row['similarity']} {row['right']:.3g} … {row['superposed']:.3g}" for row in result.rows]
        return f"correlation with shared values, right outputs … perfect superpositions: {', '.join(parts)}"

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """Both ends for every similarity."""
        figure = new_figure(4.2, 2.4)
        ax = figure.subplots()
        for line, row in enumerate(result.rows):
            ax.plot([row["right"], row["superposed"]], [line, line], color="0.7", lw=1)
            for name, colour in (("right", COLOURS[0]), ("superposed", COLOURS[1])):
                ax.plot([row[name]], [line], "o", color=colour, label=name if line == 0 else None)
        ax.set_yticks(range(len(result.rows)), [row["similarity"] for row in result.rows])
        ax.set_xlabel("Pearson's r with shared values", fontsize=9)
        ax.legend(frameon=False, fontsize=8)
        return figure


def superposed(right: Shaped[Tensor, "cell number"], inputs: DiagnosisInputs) -> Shaped[Tensor, "cell number"]:
    """True outputs with those of OOD cells replaced by means over the ID cells that share a value."""
    where = inputs.space.coordinates(torch.arange(len(inputs.space)))
    trained = torch.from_numpy(inputs.split.id_mask.ravel())
    perfect = right.clone()
    for cell in inputs.split.ood_cells:
        shared = trained & (where == where[cell]).any(1)
        if shared.any():
            perfect[cell] = right[shared].mean(0)
    return perfect
