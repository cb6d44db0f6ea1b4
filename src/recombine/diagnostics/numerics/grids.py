"""Arrays over the grid with one row per cell, validated and read in float64 blocks of bounded size.

Every diagnostic takes the outputs of a model over the grid as an array of shape (cells, …), with rows in cell order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from recombine.core.errors import InputError, Missing, NotComputable
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.memory import give_back_freed_memory
from recombine.core.seeds import generator

GridArray = Shaped[Tensor, "..."] | Shaped[np.ndarray, "..."]  # of shape (cells, …), validated by as_rows
BLOCK = 2**21  # numbers per float64 block (16 MB)
LARGE = 2**28  # arrays above this number of bytes return the memory of their blocks to the system immediately
DRAWN = 4096  # default number of cells if a result grows with its square


def rows_of(array: Shaped[Tensor, "cell ..."]) -> Shaped[Tensor, "cell feature"]:
    """Reshape to (cells, features). A tensor with one axis has a single feature per cell."""
    return array.reshape(len(array), -1)


def as_rows(array: GridArray, space: FactorSpace, what: str = "outputs") -> Shaped[Tensor, "cell feature"]:
    """Convert to rows of features on the CPU without changing the precision, and without a copy if possible.

    Raises:
        InputError: If the number of rows is not the number of cells, if there are no features, or if there are complex,
            NaN or infinite numbers.
    """
    rows = torch.as_tensor(array).detach().cpu()
    if rows.ndim == 0 or len(rows) != len(space):
        raise InputError(
            f"The {what} need one row for each of the {len(space)} cells of {space}, shape ({len(space)}, …). "
            f"Got shape {tuple(rows.shape)}."
        )
    rows = rows.reshape(len(rows), -1)
    if rows.shape[1] == 0 or rows.is_complex():
        raise InputError(f"The {what} need at least one real number per cell. Got {rows.shape[1]} of {rows.dtype}.")
    check_finite(rows, torch.arange(len(rows)), space, what)
    return rows


def check_finite(
    rows: Shaped[Tensor, "some feature"], cells: Int[Tensor, " some"], space: FactorSpace, what: str
) -> None:
    """Raise an InputError that names the first cell whose row contains a NaN or infinite number."""
    if not rows.is_floating_point() or bool(rows.sum().isfinite()):  # NaN or infinity would propagate
        return
    for start, block in enumerate_blocks(rows.T):  # blocks of cells
        if not bool(block.isfinite().all()):
            cell = cells[start + int((~block.isfinite()).any(0).nonzero()[0])]
            raise InputError(
                f"The {what} contain NaN or infinite numbers, first in cell {int(cell)} ({space.label(cell)}). "
                f"Check the {what} of this cell, or make such cells unavailable."
            )


def mean_row(
    rows: Callable[[Int[Tensor, " some"]], Shaped[Tensor, "some feature"]], cells: Int[Tensor, " cell"], size: int
) -> Float[Tensor, " feature"]:
    """Mean over cells of rows with `size` features, computed in float64 blocks; NaN if there are no cells."""
    total = torch.zeros(size, dtype=torch.float64)
    for some in cells.split(cells_per_block(size)):
        total += rows(some).double().sum(0)
    return total / len(cells) if len(cells) else total.fill_(torch.nan)


def cells_per_block(features: int) -> int:
    """Number of complete rows that fit into one block."""
    return max(1, BLOCK // max(1, features))


def enumerate_blocks(
    rows: Shaped[Tensor, "cell feature"], size: int = BLOCK
) -> Iterator[tuple[int, Float[Tensor, "cell block"]]]:
    """Yield (first feature, float64 copy of consecutive features), about `size` numbers at a time."""
    step = max(1, size // max(1, len(rows)))
    for start in range(0, rows.shape[1], step):
        yield start, rows[:, start : start + step].to(torch.float64, copy=True)
        if rows.nbytes > LARGE:
            give_back_freed_memory()


def blocks(rows: Shaped[Tensor, "cell feature"], size: int = BLOCK) -> Iterator[Float[Tensor, "cell block"]]:
    """Yield float64 copies of consecutive features, about `size` numbers at a time."""
    for _, block in enumerate_blocks(rows, size):
        yield block


def id_and_ood(holdout: Holdout, space: FactorSpace) -> tuple[Bool[Tensor, " cell"], Bool[Tensor, " cell"]]:
    """Masks of the ID and OOD cells. Raises if either is empty or if the spaces differ."""
    if holdout.space != space:
        raise InputError(f"The hold-out belongs to another space. Got {holdout.space}, expected {space}.")
    if holdout.n_ood == 0 or holdout.n_id == 0:
        raise NotComputable(
            Missing.NO_HOLDOUT,
            f"This part compares held-out with trained combinations and needs both. "
            f"Got {holdout.n_id} ID and {holdout.n_ood} OOD cells.",
        )
    return torch.from_numpy(holdout.id_mask.reshape(-1)), torch.from_numpy(holdout.ood_mask.reshape(-1))


def draw_cells(holdout: Holdout, most: int = DRAWN, *, seed: int = 0) -> Int[Tensor, " cell"]:
    """All ID cells followed by all OOD cells, or a random sample of `most` cells with the same proportions.

    Both splits have at least one cell, and both are in ascending order.
    """
    if most < 2:
        raise InputError(f"A sample needs at least 2 cells. Got most={most}.")
    parts = [("id", holdout.id_cells), ("ood", holdout.ood_cells)]
    total = holdout.n_id + holdout.n_ood
    if total > most:
        n_id = min(max(1, round(most * holdout.n_id / total)), most - 1)
        counts = [n_id, most - n_id]
        parts = [
            (name, cells[torch.randperm(len(cells), generator=generator(seed, "cells", name))[:n].sort().values])
            for (name, cells), n in zip(parts, counts)
        ]
    return torch.cat([cells for _, cells in parts])
