"""Decoders that are right on some unseen cells and fail in one way on the others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.verdicts.expected import RIGHT, Decoder, Unsuitable, verdict_of_mixture
from benchmarks.verdicts.grid import Grid
from benchmarks.verdicts.kinds.collapses import blank
from benchmarks.verdicts.kinds.copies import copy_that_shares
from benchmarks.verdicts.kinds.kind import Kind
from benchmarks.verdicts.kinds.sums import distance_weighted, few_memories, mean_of_sharing
from benchmarks.verdicts.kinds.values import noise_images

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def _mixed(grid: Grid, failing: Decoder, is_right: np.ndarray) -> Decoder:
    images = np.where(is_right[:, None], grid.truth[grid.unseen], failing.outputs[grid.unseen])
    classes = [RIGHT if here else accepted for here, accepted in zip(is_right, failing.classes, strict=True)]
    verdicts = verdict_of_mixture(float(is_right.mean()), failing.verdicts)
    return Decoder(grid.with_unseen(images), verdicts, classes, None)


def _right_on_some(grid: Grid, random: np.random.Generator, fail: Callable[..., Decoder]) -> Decoder:
    count = round(float(random.choice(SHARES)) * len(grid.unseen))
    is_right = np.zeros(len(grid.unseen), dtype=bool)
    is_right[random.permutation(len(grid.unseen))[:count]] = True
    return _mixed(grid, fail(grid, random), is_right)


def right_on_some_else_sums(grid: Grid, random: np.random.Generator) -> Decoder:
    """Right on p % of the unseen cells, sums of trained images on the others."""
    return _right_on_some(grid, random, mean_of_sharing if random.integers(2) else few_memories)


def right_on_some_else_copies(grid: Grid, random: np.random.Generator) -> Decoder:
    """Right on p % of the unseen cells, copies of trained images on the others."""
    return _right_on_some(grid, random, copy_that_shares)


def right_on_some_else_nothing(grid: Grid, random: np.random.Generator) -> Decoder:
    """Right on p % of the unseen cells, blank or noise on the others."""
    return _right_on_some(grid, random, blank if random.integers(2) else noise_images)


def right_near_the_border(grid: Grid, random: np.random.Generator) -> Decoder:
    """Right next to trained cells, sums of trained images deeper inside."""
    depth = grid.steps.sum(-1).min(1)
    is_right = depth <= int(random.integers(1, 3))
    if not 0.2 <= is_right.mean() <= 0.8:
        raise Unsuitable
    return _mixed(grid, distance_weighted(grid, random), is_right)


KINDS = (
    Kind(right_on_some_else_sums),
    Kind(right_on_some_else_copies),
    Kind(right_on_some_else_nothing),
    Kind(right_near_the_border, splits=("centre", "corner", "block", "cross")),
)
