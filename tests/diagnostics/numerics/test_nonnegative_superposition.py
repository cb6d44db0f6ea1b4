"""Sums of remembered outputs with free weights: cases with known answers, and scikit-learn's fit as oracle."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

import recombine as rc
from recombine.core.factors import cyclic
from recombine.diagnostics.numerics.nonnegative_superposition import nonnegative_superposition

SPACE = rc.FactorSpace(x=10, y=10)
HOLE = rc.holdouts.centre(SPACE, 3, 6)
CELLS = torch.arange(len(SPACE))


def noise(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_relatives(weights_seed=1):
    """Noise where trained; elsewhere a sum of the relatives with random weights ≥ 0."""
    outputs, held = noise(100, 400), torch.from_numpy(HOLE.mask.ravel())
    where = SPACE.coordinates(CELLS)
    for cell in HOLE.ood_cells:
        relatives = ((where == where[cell]).sum(1) == 1) & ~held
        outputs[cell] = noise(int(relatives.sum()), seed=int(cell) + weights_seed) @ outputs[relatives]
    return outputs


def test_sums_with_any_weights_are_found():
    found = nonnegative_superposition(with_relatives(), SPACE, HOLE, truth=noise(100, 400, seed=5))
    assert len(found.cells) == HOLE.n_ood
    np.testing.assert_allclose(found.share, 1, atol=1e-9)
    assert found.truth is not None
    assert np.median(found.truth) < 0.2
    assert np.median(found.unrelated) < 0.2
    assert np.median(found.trained) < 0.2


def test_the_scale_changes_nothing():
    plain = nonnegative_superposition(with_relatives(), SPACE, HOLE)
    scaled = nonnegative_superposition(1e3 * with_relatives(), SPACE, HOLE)
    for name in ("share", "unrelated", "trained"):
        np.testing.assert_allclose(getattr(plain, name), getattr(scaled, name), atol=1e-9)


def test_the_share_is_that_of_a_non_negative_regression():
    outputs = noise(100, 60, seed=3)
    held = torch.from_numpy(HOLE.mask.ravel())
    mean = outputs[~held].mean(0)
    direction = mean / mean.norm()
    flat = (outputs - (outputs @ direction)[:, None] * direction).numpy()
    found = nonnegative_superposition(outputs, SPACE, HOLE)
    where = SPACE.coordinates(CELLS)
    for cell, share in zip(found.cells, found.share):
        relatives = (((where == where[cell]).sum(1) == 1) & ~held).numpy()
        fit = LinearRegression(positive=True, fit_intercept=False).fit(flat[relatives].T, flat[cell])
        left = flat[cell] - fit.predict(flat[relatives].T)
        assert share == pytest.approx(1 - left @ left / (flat[cell] @ flat[cell]), abs=1e-8)


def test_relatives_differ_in_one_factor_only():
    """Three factors: a sum of cells that share a single value is not among the sums of relatives."""
    space = rc.FactorSpace(x=4, y=4, z=4)
    hole = rc.holdouts.mask(space, np.arange(64) == 21)  # (1, 1, 1)
    outputs = torch.eye(64, dtype=torch.float64)
    where = space.coordinates(torch.arange(64))
    shared = (where == 1).sum(1)
    for kinship, expected in ((2, 1.0), (1, 0.0)):
        outputs[21] = outputs[(shared == kinship)].sum(0)
        [share] = nonnegative_superposition(outputs, space, hole).share
        assert share == pytest.approx(expected, abs=0.25)  # the mean's direction mixes all cells a little
        assert (share > 0.99) == (kinship == 2)


def test_without_relatives_there_is_no_number():
    corner = rc.holdouts.where(SPACE, lambda x, y: ~((x == 0) & (y == 0)))
    found = nonnegative_superposition(noise(100, 30), SPACE, corner)
    assert np.isnan(found.share[SPACE.coordinates(torch.from_numpy(found.cells)).min(1).values.numpy() > 0]).all()
    assert (~np.isnan(found.share)).sum() == 18  # the row and the column of the one trained cell


def test_trained_cells_are_given_a_hole_as_large():
    """Outputs like those of their nearest neighbours alone: trained ones score no more than OOD ones in a wide hole."""
    space = rc.FactorSpace(x=cyclic(24.0, 24), y=cyclic(24.0, 24))
    hole = rc.holdouts.centre(space, 8.0, 16.0)
    at = space.coordinates(torch.arange(len(space))).double()
    rings = [torch.exp(-((torch.arange(24) - at[:, i, None]).abs().remainder(24) ** 2)) for i in (0, 1)]
    bumps = (rings[0][:, :, None] * rings[1][:, None, :]).flatten(1)
    found = nonnegative_superposition(bumps, space, hole)
    assert np.median(found.share) < 0.1
    assert np.median(found.trained) < 0.1


def test_many_cells_are_drawn_by_seed():
    outputs = noise(100, 20)
    some = nonnegative_superposition(outputs, SPACE, HOLE, most_cells=5, seed=3)
    again = nonnegative_superposition(outputs, SPACE, HOLE, most_cells=5, seed=3)
    other = nonnegative_superposition(outputs, SPACE, HOLE, most_cells=5, seed=4)
    assert len(some.cells) == 5
    np.testing.assert_array_equal(some.share, again.share)
    assert some.cells.tolist() != other.cells.tolist()
