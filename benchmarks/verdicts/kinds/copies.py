"""Decoders that answer unseen cells with one trained image each."""

from __future__ import annotations

import numpy as np

from benchmarks.verdicts.expected import Decoder, Unsuitable
from benchmarks.verdicts.grid import Grid
from benchmarks.verdicts.kinds.kind import Kind

COPIES = frozenset({"copies"})


def _copies(grid: Grid, memories: np.ndarray, strength: float = 1.0, also: tuple[str, ...] = ()) -> Decoder:
    images = grid.mean + strength * (grid.truth[memories] - grid.mean)
    one_factor = (grid.at[memories] != grid.at[grid.unseen]).sum(1) == 1
    classes = [frozenset({"copy", "wrong value"} if one else {"copy"}) for one in one_factor]
    return Decoder(grid.with_unseen(images), COPIES | set(also), classes, None)


def nearest_copy(grid: Grid, random: np.random.Generator) -> Decoder:
    """The nearest trained image; one of the nearest at random."""
    distance = grid.distance + 1e-6 * random.random(grid.distance.shape)
    return _copies(grid, grid.trained[distance.argmin(1)])


def copy_that_shares(grid: Grid, random: np.random.Generator) -> Decoder:
    """Any trained image that shares a value."""
    if not grid.shares.any(1).all():
        raise Unsuitable
    drawn = [random.choice(np.flatnonzero(shares)) for shares in grid.shares]
    return _copies(grid, grid.trained[drawn])


def faint_copy(grid: Grid, random: np.random.Generator) -> Decoder:
    """The same, fainter or stronger."""
    drawn = [random.choice(np.flatnonzero(shares)) for shares in grid.shares]
    return _copies(grid, grid.trained[drawn], float(random.choice([0.6, 0.8, 1.3])))


def unrelated_copy(grid: Grid, random: np.random.Generator) -> Decoder:
    """Any trained image that shares no value."""
    if grid.shares.all(1).any():
        raise Unsuitable
    drawn = [random.choice(np.flatnonzero(~shares)) for shares in grid.shares]
    return _copies(grid, grid.trained[drawn])


def one_copy_for_all(grid: Grid, random: np.random.Generator) -> Decoder:
    """One and the same trained image for every unseen cell."""
    return _copies(grid, np.full(len(grid.unseen), random.choice(grid.trained)), also=("collapses",))


def blended_with_one(grid: Grid, random: np.random.Generator) -> Decoder:
    """One trained image, with a tenth of another."""
    drawn = np.array([random.choice(len(grid.trained), 2, replace=False) for _ in grid.unseen])
    made = _copies(grid, grid.trained[drawn[:, 0]])
    images = 0.9 * made.outputs[grid.unseen] + 0.1 * grid.truth[grid.trained[drawn[:, 1]]]
    return Decoder(grid.with_unseen(images), COPIES, made.classes, None)


KINDS = tuple(
    Kind(make)
    for make in (nearest_copy, copy_that_shares, faint_copy, unrelated_copy, one_copy_for_all, blended_with_one)
)
