"""The trained cells from which an unseen output may have been composed.

The *memories* of a cell are the trained cells that share at least one factor value with it, nearer relatives first:
those that differ in fewer factors, and among these the ones fewer steps away. There is a budget per cell. With a single
factor no two cells share a value: there, the nearer half of the trained cells are its relatives.

A trained cell can be treated as if it were unseen (`covered_by_hole`): the shape of the hold-out is centred on it, and
the trained cells that it covers there are not used as memories.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.core.seeds import generator

BUDGET = 64  # memories per cell


@dataclass(frozen=True, eq=False)
class Memories:
    """Trained cells for each of some cells, as columns of a pool of trained cells.

    Attributes:
        column: Indices into the pool, nearer relatives first; 0 as padding.
        exists: False for padding.
    """

    column: Int[Tensor, "cell memory"]
    exists: Bool[Tensor, "cell memory"]


def steps_apart(
    space: FactorSpace, some: Int[Tensor, "cell factor"], others: Int[Tensor, "other factor"]
) -> Int[Tensor, "cell other factor"]:
    """Grid steps between cells, factor by factor: the short way round a cyclic factor, 0 or 1 for a categorical one."""
    apart = (some[:, None] - others[None]).abs()
    for axis, factor in enumerate(space.factors.values()):
        if factor.kind == "cyclic":
            apart[..., axis] = torch.minimum(apart[..., axis], factor.size - apart[..., axis])
        elif factor.categorical:
            apart[..., axis] = apart[..., axis].clamp_max(1)
    return apart


def choose_memories(
    space: FactorSpace,
    apart: Int[Tensor, "cell pool factor"],
    allowed: Bool[Tensor, "cell pool"],
    likeness: Float[Tensor, "cell pool"],
    *,
    budget: int = BUDGET,
) -> Memories:
    """The memories of each cell among the allowed cells of the pool.

    Args:
        space: The factor space.
        apart: Steps between the cells and the pool, see `steps_apart`.
        allowed: Which cells of the pool may be used.
        likeness: The share of the cell's output that each cell of the pool explains.
        budget: Largest number of memories. If there are more relatives, two thirds of the memories are the nearest
            ones, and the rest are those of the others that are most similar to the output.
    """
    differing = (apart > 0).sum(-1)
    sizes = torch.tensor(space.shape, dtype=torch.float64)
    order = differing + (apart / sizes).mean(-1)  # the mean is below 1
    return _choose(order, likeness, allowed & _related(apart, allowed), budget)


def choose_strangers(
    apart: Int[Tensor, "cell pool factor"],
    allowed: Bool[Tensor, "cell pool"],
    likeness: Float[Tensor, "cell pool"],
    counts: Int[Tensor, " cell"],
    *,
    seed: int,
) -> Memories:
    """A random sample of equally many trained cells that are not relatives.

    If memories had to be selected, a third of the strangers are those most similar to the output, as for memories.
    """
    order = torch.rand(allowed.shape, generator=generator(seed, "strangers"), dtype=torch.float64)
    most = int(counts.max())
    likest = likeness if most >= BUDGET else torch.zeros_like(likeness)
    found = _choose(order, likest, allowed & ~_related(apart, allowed), most)
    enough = torch.arange(found.exists.shape[1]) < counts[:, None]
    return Memories(found.column, found.exists & enough)


def _related(apart: Int[Tensor, "cell pool factor"], allowed: Bool[Tensor, "cell pool"]) -> Bool[Tensor, "cell pool"]:
    """Which of the pool share a factor value with each cell; the nearer half of the allowed ones with one factor."""
    if apart.shape[-1] > 1:
        return (apart == 0).any(-1)
    steps = apart[..., 0].double()
    return steps <= torch.where(allowed, steps, torch.nan).nanmedian(dim=1, keepdim=True).values


def _choose(
    order: Float[Tensor, "cell pool"],
    likeness: Float[Tensor, "cell pool"],
    wanted: Bool[Tensor, "cell pool"],
    most: int,
) -> Memories:
    """The first two thirds by order, the others by likeness."""
    count = min(most, int(wanted.sum(1).max()))
    by_order = count if int(wanted.sum(1).max()) <= most else most - most // 3
    first = torch.where(wanted, order, torch.inf).topk(by_order, dim=1, largest=False)
    rest = wanted.scatter(1, first.indices, False)
    likest = torch.where(rest, likeness, -torch.inf).topk(count - by_order, dim=1)
    return Memories(
        torch.cat([first.indices, likest.indices], dim=1),
        torch.cat([first.values.isfinite(), likest.values.isfinite()], dim=1),
    )


def covered_by_hole(
    space: FactorSpace,
    unseen: Bool[Tensor, " grid"],
    cells: Int[Tensor, "cell factor"],
    pool: Int[Tensor, "pool factor"],
    places: Int[Tensor, "cell factor"] | None = None,
) -> Bool[Tensor, "cell pool"]:
    """The cells of the pool that the hold-out covers when it is moved onto each of some cells, clipped to the grid.

    The cell itself is always covered.

    Args:
        space: The factor space.
        unseen: The hold-out.
        cells: Positions of the cells.
        pool: Positions of the pool.
        places: The position within the hold-out that is moved onto each cell; by default its centre.
    """
    places = hole_centre(space, unseen).expand(len(cells), -1) if places is None else places
    there = pool[None] - cells[:, None] + places[:, None]
    inside = torch.ones(there.shape[:2], dtype=torch.bool)
    for axis, factor in enumerate(space.factors.values()):
        if factor.kind == "cyclic":
            there[..., axis] %= factor.size
        else:
            inside &= (there[..., axis] >= 0) & (there[..., axis] < factor.size)
            there[..., axis].clamp_(0, factor.size - 1)
    held = unseen.reshape(space.shape)[tuple(there.unbind(-1))]
    return (inside & held) | (pool[None] == cells[:, None]).all(-1)


def hole_centre(space: FactorSpace, unseen: Bool[Tensor, " grid"]) -> Int[Tensor, " factor"]:
    """The mean position of the held-out cells; the circular mean of a cyclic factor."""
    at = space.coordinates(unseen.nonzero()[:, 0]).double()
    centre = at.mean(0).round().long()
    for axis, factor in enumerate(space.factors.values()):
        if factor.kind == "cyclic":
            turn = torch.exp(2j * np.pi * at[:, axis] / factor.size).mean()
            if float(turn.abs()) > 1e-6:
                centre[axis] = round(float(turn.angle()) / (2 * np.pi) * factor.size) % factor.size
    return centre
