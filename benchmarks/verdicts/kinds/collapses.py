"""Decoders whose unseen outputs no longer depend on the combination."""

from __future__ import annotations

import numpy as np

from benchmarks.verdicts.expected import Decoder, same
from benchmarks.verdicts.grid import Grid
from benchmarks.verdicts.kinds.kind import Kind

COLLAPSES = frozenset({"collapses"})


def mean_of_all(grid: Grid, random: np.random.Generator) -> Decoder:
    """The mean of all trained images."""
    images = np.tile(grid.mean, (len(grid.unseen), 1))
    flat = float(((grid.mean - grid.mean.mean()) ** 2).sum()) < 0.2 * float(grid.energy.mean())
    classes = same(len(grid.unseen), *(("mean", "blank", "ambiguous") if flat else ("mean",)))
    return Decoder(grid.with_unseen(images), COLLAPSES, classes, None)


def blank(grid: Grid, random: np.random.Generator) -> Decoder:
    """Zeros, the darkest or brightest value, or an even grey."""
    level = random.choice([0.0, float(np.median(grid.truth)), 0.5])
    images = np.full((len(grid.unseen), grid.truth.shape[1]), level)
    flat = float(((grid.mean - grid.mean.mean()) ** 2).sum()) < 0.2 * float(grid.energy.mean())
    classes = same(len(grid.unseen), *(("mean", "blank", "ambiguous") if flat else ("blank",)))
    return Decoder(grid.with_unseen(images), COLLAPSES, classes, None)


KINDS = (Kind(mean_of_all), Kind(blank))
