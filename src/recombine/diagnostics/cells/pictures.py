"""Pictures of the evidence on a few cells: the best sum of memories, the memories themselves, and the residual."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from recombine.diagnostics.cells.evidence import Evidence

STRONGEST = 3  # memories shown of each cell


def best_sums(
    rows: Shaped[Tensor, "grid number"], evidence: Evidence, chosen: Int[np.ndarray, " picture"]
) -> dict[str, np.ndarray]:
    """Arrays for some of the examined unseen cells, given by their index among these.

    `sum` (picture, number), and `memories` (picture, memory, number) with `memory cells` and `memory weights`, the
    strongest ones. A cell without memories has NaN.
    """
    memory = evidence.unseen.memory
    cells, weights = memory.memory_cells[chosen], memory.memory_weights[chosen]
    sums = np.full((len(chosen), rows.shape[1]), np.nan)
    shown = np.full((len(chosen), STRONGEST, rows.shape[1]), np.nan)
    for row, cell in enumerate(evidence.unseen.cells[chosen]):
        used = cells[row] >= 0
        if not used.any():
            continue
        images = rows[torch.from_numpy(cells[row][used])].double()
        sums[row] = _with_background(torch.from_numpy(weights[row][used]) @ images, rows[cell].double(), evidence)
        few = images[:STRONGEST]
        shown[row, : len(few)] = few.numpy()
    padded = max(0, STRONGEST - cells.shape[1])
    return {
        "sum": sums,
        "memories": shown,
        "memory cells": np.pad(cells[:, :STRONGEST], ((0, 0), (0, padded)), constant_values=-1),
        "memory weights": np.pad(weights[:, :STRONGEST], ((0, 0), (0, padded))),
    }


def _with_background(total: Tensor, output: Tensor, evidence: Evidence) -> Float[np.ndarray, " number"]:
    """A sum of outputs, plus the multiple of the mean output and the constant that bring it closest to an output."""
    flat = evidence.flat
    return (total + flat @ (flat.T @ (output - total))).numpy()
