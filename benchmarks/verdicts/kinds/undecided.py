"""Decoders about which nothing can be said."""

from __future__ import annotations

import numpy as np

from benchmarks.verdicts.expected import Decoder, same
from benchmarks.verdicts.grid import Grid
from benchmarks.verdicts.kinds.everywhere import ANY
from benchmarks.verdicts.kinds.kind import Kind

UNDECIDED = frozenset({"undecided"})


def other_scale(grid: Grid, random: np.random.Generator) -> Decoder:
    """The truth in [0, 1] and outputs in [0, 255] or [−127, 128], or the other way round."""
    scale, offset = [(255.0, 0.0), (1 / 255, 0.0), (255.0, -127.0)][int(random.integers(3))]
    outputs = scale * grid.truth + offset
    return Decoder(outputs, UNDECIDED, same(len(grid.unseen), *ANY), None, gap=False)


def too_few_cells(grid: Grid, random: np.random.Generator) -> Decoder:
    """Sums of trained images, but for three unseen cells only."""
    weights = grid.shares / grid.shares.sum(1, keepdims=True)
    outputs = grid.with_unseen(weights @ grid.truth[grid.trained])
    return Decoder(outputs, UNDECIDED, same(len(grid.unseen), *ANY), None)


KINDS = (Kind(other_scale, nuisance=False), Kind(too_few_cells, splits=("three_cells",)))
