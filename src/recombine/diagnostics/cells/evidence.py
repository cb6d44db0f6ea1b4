"""Explanations of the outputs for unseen cells, and for trained cells treated as if they were unseen.

found = gather_evidence(outputs, space, trained=…, unseen=…, truth=images)
found.unseen.memory.sum            # ‖output − best sum of memories‖², one per unseen cell
found.control.truth.right          # ‖output − truth‖², one per trained cell examined
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.core.seeds import generator
from recombine.diagnostics.cells.memories import covered_by_hole
from recombine.diagnostics.cells.memory_fit import MemoryFit, fit_memories
from recombine.diagnostics.cells.products import products
from recombine.diagnostics.cells.rendering import Rendering, render_like
from recombine.diagnostics.cells.truth_fit import TruthFit, fit_truth, true_products
from recombine.diagnostics.model.truth import Truth, as_truth
from recombine.diagnostics.numerics.grids import GridArray, as_rows

MOST_CELLS = 1024  # unseen cells examined; all of them up to 32 × 32
MOST_CONTROLS = 128  # trained cells treated as if unseen
MOST_POOL = 2048  # trained cells that memories are chosen from


@dataclass(frozen=True, eq=False)
class CellEvidence:
    """Explanations of the outputs of some cells.

    Attributes:
        cells: Indices of the cells.
        at: Their grid positions.
        memory: Explanations by trained outputs.
        truth: Explanations by the truth; None without truth.
    """

    cells: Int[np.ndarray, " cell"]
    at: Int[np.ndarray, "cell factor"]
    memory: MemoryFit
    truth: TruthFit | None


@dataclass(frozen=True, eq=False)
class Evidence:
    """All evidence.

    Attributes:
        space: The factor space.
        trained_cells: Which cells are trained, over the grid.
        unseen: Evidence on the unseen cells; on a random sample if there are more than `MOST_CELLS`.
        control: Evidence on a random sample of trained cells, treated as if they were unseen: the shape of the hold-out
            is centred on each of them, and the trained cells that it covers are not used as memories. Without truth,
            the shape is placed so that each takes the position of a random unseen cell, because near the border of a
            hole right outputs resemble memories.
        rendering: How the model renders trained cells; None without truth.
        flat: An orthonormal basis of the mean trained output and a constant.
        drawn_from: Number of unseen cells, if only a sample of them is examined; None if all are.
    """

    space: FactorSpace
    trained_cells: Bool[np.ndarray, " grid"]
    unseen: CellEvidence
    control: CellEvidence
    rendering: Rendering | None
    flat: Float[Tensor, "number direction"]
    drawn_from: int | None = None


def gather_evidence(
    outputs: GridArray,
    space: FactorSpace,
    *,
    trained: Bool[Tensor, " grid"],
    unseen: Bool[Tensor, " grid"],
    truth: GridArray | Truth | None = None,
    seed: int = 0,
) -> Evidence:
    """Compare the outputs for unseen cells, and for some trained ones, with all explanations.

    Args:
        outputs: The model's output for every cell, (cell, …).
        space: The factor space.
        trained: Which cells were trained on; at least one.
        unseen: Which cells were held out; at least one. Cells that are neither are ignored.
        truth: The correct outputs, with the same shape.
        seed: Seed of all random samples.
    """
    rows = as_rows(outputs, space)
    pool = _drawn(trained.nonzero()[:, 0], MOST_POOL, seed, "pool")
    looked = _drawn(unseen.nonzero()[:, 0], MOST_CELLS, seed, "unseen")
    controls = _drawn(torch.arange(len(pool)), MOST_CONTROLS, seed, "controls")
    cells = torch.cat([pool, looked])
    found = products(rows, trained.nonzero()[:, 0], cells)
    at = space.coordinates(cells)
    places = None
    if truth is None:
        drawn = torch.randint(len(looked), (len(controls),), generator=generator(seed, "places"))
        places = space.coordinates(looked[drawn])
    chosen = {"unseen": torch.arange(len(pool), len(cells)), "control": controls}
    allowed = {
        "unseen": torch.ones(len(looked), len(pool), dtype=torch.bool),
        "control": ~covered_by_hole(space, unseen, at[controls], at[: len(pool)], places),
    }
    right = None if truth is None else as_truth(truth, space, rows.shape[1])
    shape = tuple(outputs.shape[1:])
    how = None if right is None else render_like(rows, right, found, pool, shape)

    def evidence(name: str) -> CellEvidence:
        which = cells[chosen[name]]
        fit = known = None
        if right is not None and how is not None:
            fit = fit_truth(rows, right, space, found, how, cells=which, available=trained | unseen)
            known = true_products(rows, right, found, how, which, pool)
        memory = fit_memories(
            found,
            space,
            looked=chosen[name],
            pool=torch.arange(len(pool)),
            cells=cells,
            allowed=allowed[name],
            truth=known,
            seed=seed,
        )
        return CellEvidence(which.numpy(), at[chosen[name]].numpy(), memory, fit)

    everything = int(unseen.sum())
    drawn_from = everything if len(looked) < everything else None
    return Evidence(space, trained.numpy(), evidence("unseen"), evidence("control"), how, found.flat, drawn_from)


def _drawn(cells: Int[Tensor, " cell"], most: int, seed: int, what: str) -> Int[Tensor, " drawn"]:
    """The cells, or a random sample in ascending order if there are more than `most`."""
    if len(cells) <= most:
        return cells
    return cells[torch.randperm(len(cells), generator=generator(seed, what))[:most].sort().values]
