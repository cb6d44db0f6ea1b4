"""Decoders with the right form in the wrong strength on unseen cells."""

from __future__ import annotations

import numpy as np

from benchmarks.verdicts.expected import Decoder, same
from benchmarks.verdicts.grid import Grid
from benchmarks.verdicts.kinds.kind import Kind

FAILS = frozenset({"fails otherwise"})
FAINT, STRONG = (0.15, 0.3, 0.45), (1.7, 2.2, 3.0)


def _scaled(grid: Grid, scales: np.ndarray, around_mean: bool) -> Decoder:
    centre = grid.mean if around_mean else 0.0
    images = centre + scales[:, None] * (grid.truth[grid.unseen] - centre)
    return Decoder(grid.with_unseen(images), FAILS, same(len(grid.unseen), "wrong strength"))


def faint(grid: Grid, random: np.random.Generator) -> Decoder:
    """Unseen images are fainter by one factor."""
    return _scaled(grid, np.full(len(grid.unseen), random.choice(FAINT)), bool(random.integers(2)))


def strong(grid: Grid, random: np.random.Generator) -> Decoder:
    """Unseen images are stronger by one factor."""
    return _scaled(grid, np.full(len(grid.unseen), random.choice(STRONG)), bool(random.integers(2)))


def uneven_strength(grid: Grid, random: np.random.Generator) -> Decoder:
    """Each unseen image has a strength of its own."""
    return _scaled(grid, random.choice(FAINT + STRONG, len(grid.unseen)), bool(random.integers(2)))


KINDS = (Kind(faint, noise=0.0), Kind(strong), Kind(uneven_strength, noise=0.0))
