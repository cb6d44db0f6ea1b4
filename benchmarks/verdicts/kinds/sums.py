"""Decoders that answer unseen cells with sums of trained images."""

from __future__ import annotations

import numpy as np

from benchmarks.verdicts.expected import SUM_LIKE, Decoder, Unsuitable, same
from benchmarks.verdicts.grid import Grid
from benchmarks.verdicts.kinds.kind import Kind

SUPERPOSES = frozenset({"superposes"})


def _sums(grid: Grid, weights: np.ndarray, failing: frozenset[str] | None = None) -> Decoder:
    """Sums of trained images with weights (unseen, trained)."""
    if not weights.any(1).all():
        raise Unsuitable
    outputs = grid.with_unseen(weights @ grid.truth[grid.trained])
    return Decoder(outputs, SUPERPOSES, same(len(grid.unseen), "sum"), failing)


def mean_of_sharing(grid: Grid, random: np.random.Generator) -> Decoder:
    """The textbook: the mean of all trained images that share at least one value."""
    if (grid.shares.sum(1) < 3).any():
        raise Unsuitable
    return _sums(grid, grid.shares / grid.shares.sum(1, keepdims=True))


def sum_of_factor_means(grid: Grid, random: np.random.Generator) -> Decoder:
    """For each factor the mean of the trained images that share its value, added up or averaged."""
    same_value = grid.steps == 0
    if (same_value.sum(1) < 2).any():
        raise Unsuitable
    weights = (same_value / same_value.sum(1, keepdims=True)).sum(-1)
    return _sums(grid, weights / random.choice([1, len(grid.names)]))


def additive_prediction(grid: Grid, random: np.random.Generator) -> Decoder:
    """The sum of the factor means, less the mean image as often as it was counted too much."""
    made = sum_of_factor_means(grid, np.random.default_rng(0))
    same_value = grid.steps == 0
    weights = (same_value / same_value.sum(1, keepdims=True)).sum(-1)
    images = weights @ grid.truth[grid.trained] - (len(grid.names) - 1) * grid.mean
    return Decoder(grid.with_unseen(images), SUPERPOSES, made.classes, None)


def distance_weighted(grid: Grid, random: np.random.Generator) -> Decoder:
    """The mean of the trained images that share a value, nearer ones counting more."""
    weights = grid.shares * np.exp(-grid.distance / random.uniform(0.15, 0.4))
    weights /= np.maximum(weights.sum(1, keepdims=True), 1e-300)
    if (weights.max(1) > 0.5).any():
        raise Unsuitable
    return _sums(grid, weights)


def few_memories(grid: Grid, random: np.random.Generator) -> Decoder:
    """Two to four trained images that share a value, no one of which outweighs the others."""
    weights = np.zeros(grid.shares.shape)
    for row, shares in enumerate(grid.shares):
        related = np.flatnonzero(shares)
        if len(related) < 4:
            raise Unsuitable
        chosen = random.choice(related, random.integers(2, 5), replace=False)
        parts = random.uniform(0.7, 1.3, len(chosen))
        weights[row, chosen] = parts / parts.sum()
    return _sums(grid, weights)


def blend_along_one_factor(grid: Grid, random: np.random.Generator) -> Decoder:
    """The mean of the trained images that differ in one and the same factor only."""
    axis = int(random.integers(len(grid.names)))
    others = np.delete(grid.steps, axis, axis=2)
    along = (others == 0).all(-1)
    if (along.sum(1) < 2).any():
        raise Unsuitable
    made = _sums(grid, along / along.sum(1, keepdims=True))
    read = grid.values_read(made.outputs, grid.unseen, axis)
    clearly = float(np.mean(read == grid.at[grid.unseen, axis])) < 0.2
    return Decoder(made.outputs, SUPERPOSES, made.classes, frozenset({grid.names[axis]}) if clearly else None)


def strong_ghosts(grid: Grid, random: np.random.Generator) -> Decoder:
    """The truth with as strong a copy of a trained image, or of two."""
    unseen, related = grid.unseen, grid.shares / np.maximum(grid.shares.sum(1, keepdims=True), 1)
    ghosts = np.zeros((len(unseen), grid.truth.shape[1]))
    for _ in range(int(random.integers(1, 3))):
        drawn = [random.choice(len(grid.trained), p=p) for p in related]
        ghosts += grid.truth[grid.trained[drawn]] - grid.mean
    level = np.sqrt(random.uniform(0.7, 1.2) * grid.energy[unseen] / (ghosts**2).sum(1))
    outputs = grid.with_unseen(grid.truth[unseen] + level[:, None] * ghosts)
    explained = share_of_sums(grid)
    if explained >= SUM_LIKE:
        return Decoder(outputs, SUPERPOSES | {"fails otherwise"}, same(len(unseen), "sum", "other"), None)
    return Decoder(outputs, frozenset({"fails otherwise"}), same(len(unseen), "other"), None)


def share_of_sums(grid: Grid, most: int = 12) -> float:
    """Median share of the truth, its mean taken out, that the best sum of trained images with weights ≥ 0 explains."""
    from scipy.optimize import nnls

    shares = []
    direction = grid.mean / np.linalg.norm(grid.mean)
    apart = grid.truth - np.outer(grid.truth @ direction, direction)
    for row in np.linspace(0, len(grid.unseen) - 1, most).astype(int):
        wanted = apart[grid.unseen[row]]
        _, missed = nnls(apart[grid.trained[grid.shares[row]]].T, wanted, maxiter=10_000)
        shares.append(1 - missed**2 / (wanted @ wanted))
    return float(np.median(shares))


KINDS = (
    Kind(mean_of_sharing),
    Kind(sum_of_factor_means),
    Kind(additive_prediction),
    Kind(distance_weighted),
    Kind(few_memories),
    Kind(blend_along_one_factor),
    Kind(strong_ghosts),
)
