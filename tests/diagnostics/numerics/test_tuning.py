"""Stripe and bump indices on units whose shape is known, and the variance decomposition behind them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from recombine import FactorSpace
from recombine.core.errors import InputError, NotComputable
from recombine.diagnostics.numerics.anova import variance_components
from recombine.diagnostics.numerics.tuning import tuning_curves, unit_maps

SPACE = FactorSpace(x=28, y=28)
X, Y = np.meshgrid(np.arange(28), np.arange(28), indexing="ij")


def gauss(values: np.ndarray, at: float, sigma: float = 1.0) -> np.ndarray:
    return np.exp(-((values - at) ** 2) / (2 * sigma**2))


UNITS = {
    "x stripe": gauss(X, 14),
    "y ramp": 0.1 * Y,
    "bump": gauss(X, 14) * gauss(Y, 10),
    "dark bump": 1 - gauss(X, 14) * gauss(Y, 10),
    "one cell": (X == 3) & (Y == 4),
    "cross": gauss(X, 14) + gauss(Y, 14),
    "chequerboard": np.sin(X * np.pi / 3.5) * np.sin(Y * np.pi / 3.5),
    "noise": np.random.default_rng(0).normal(size=(28, 28)),
    "constant": np.full((28, 28), 0.7),
    "off": np.zeros((28, 28)),
}
NAMES = list(UNITS)
ACTIVATIONS = np.stack([unit.ravel() for unit in UNITS.values()], axis=1).astype(float)


def test_components_equal_the_projections_one_by_one() -> None:
    space = FactorSpace(x=3, y=4, z=2)
    rows = torch.rand(24, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    terms, found = variance_components(rows, space, block=30)
    assert terms == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    for term, component in zip(terms, found):
        parts = [
            torch.eye(n).double() - 1 / n if axis in term else torch.full((n, n), 1 / n).double()
            for axis, n in enumerate(space.shape)
        ]
        projection = torch.kron(torch.kron(parts[0], parts[1]), parts[2])
        torch.testing.assert_close(component, (projection @ rows).square().mean(0))
    torch.testing.assert_close(found.sum(0), rows.var(0, correction=0))


@pytest.mark.parametrize(
    ("name", "stripe", "bump"),
    [
        ("x stripe", (1.0, 1.0), (0.0, 1e-9)),
        ("y ramp", (1.0, 1.0), (0.0, 1e-9)),
        ("bump", (0.0, 0.13), (0.7, 1.0)),
        ("dark bump", (0.0, 0.13), (0.7, 1.0)),
        ("one cell", (0.0, 0.05), (0.9, 1.0)),
        ("cross", (0.49, 0.51), (0.0, 1e-9)),
        ("chequerboard", (0.0, 0.05), (0.0, 0.45)),
        ("noise", (0.0, 0.1), (0.0, 0.1)),
    ],
)
def test_indices_of_known_units(name: str, stripe: tuple[float, float], bump: tuple[float, float]) -> None:
    curves = tuning_curves(ACTIVATIONS, SPACE)
    unit = NAMES.index(name)
    assert stripe[0] - 1e-9 <= curves.stripe[unit] <= stripe[1] + 1e-9
    assert bump[0] <= curves.bump[unit] <= bump[1]


def test_the_documented_bump() -> None:
    curves = tuning_curves(ACTIVATIONS, SPACE)
    unit = NAMES.index("bump")
    assert curves.stripe[unit] == pytest.approx(0.11, abs=0.005)
    assert curves.bump[unit] == pytest.approx(0.73, abs=0.005)


def test_constant_units_are_marked() -> None:
    curves = tuning_curves(ACTIVATIONS, SPACE)
    for name in ("constant", "off"):
        unit = NAMES.index(name)
        assert np.isnan([curves.stripe[unit], curves.bump[unit], curves.localization[unit]]).all()
        assert np.isnan(curves.interaction[unit])
        assert curves.preferred[unit] == -1
    assert curves.constant.sum() == 2


def test_marginals_preferred_factor_and_scale() -> None:
    curves = tuning_curves(ACTIVATIONS, SPACE)
    np.testing.assert_allclose(curves.marginals["x"], np.stack([u.mean(1) for u in UNITS.values()]), atol=1e-15)
    np.testing.assert_allclose(curves.marginals["y"], np.stack([u.mean(0) for u in UNITS.values()]), atol=1e-15)
    assert curves.preferred[NAMES.index("x stripe")] == 0
    assert curves.preferred[NAMES.index("y ramp")] == 1
    np.testing.assert_allclose(curves.variance, ACTIVATIONS.var(0), atol=1e-15)
    scaled = tuning_curves(-3e6 * ACTIVATIONS[:, :8] + 5, SPACE)
    np.testing.assert_allclose(scaled.stripe, curves.stripe[:8], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(scaled.bump, curves.bump[:8], rtol=1e-7, atol=1e-9)


def test_indices_lie_between_0_and_1_for_three_factors() -> None:
    space = FactorSpace(x=4, y=1, z=5, w=3)
    random = np.random.default_rng(1)
    curves = tuning_curves(random.normal(size=(60, 40)) ** 3, space, block=200)
    for index in (curves.stripe, curves.bump, curves.interaction, curves.localization):
        assert index.min() >= 0
        assert index.max() <= 1
    cells = np.array(list(itertools.product(range(4), range(1), range(5), range(3))))
    z_only = tuning_curves(np.cos(cells[:, [2]]), space)
    assert z_only.stripe[0] == pytest.approx(1)
    assert z_only.preferred[0] == 2
    one = tuning_curves((cells == [1, 0, 2, 0]).all(1, keepdims=True).astype(float), space)
    assert one.localization[0] == pytest.approx(1)


def test_summary_and_typical_units() -> None:
    curves = tuning_curves(ACTIVATIONS, SPACE)
    summary = curves.summary()
    assert (summary.units, summary.constant) == (10, 2)
    assert summary.stripe == pytest.approx(np.nanmean(curves.stripe))
    assert summary.stripe_share == pytest.approx(3 / 8, abs=0.13)
    assert summary.bump_share == pytest.approx(3 / 8)
    weights = curves.variance[:8]
    assert summary.weighted_bump == pytest.approx((curves.bump[:8] * weights).sum() / weights.sum())
    assert sum(summary.preferred.values()) == pytest.approx(1)
    assert {NAMES[u] for u in curves.most_typical("stripe", 2)} == {"x stripe", "y ramp"}
    assert {NAMES[u] for u in curves.most_typical("bump", 3)} == {"bump", "dark bump", "one cell"}
    assert len(curves.most_typical("bump", 100)) == 8
    maps = unit_maps(ACTIVATIONS, SPACE, curves.most_typical("bump", 1))
    np.testing.assert_array_equal(maps[0], UNITS["one cell"])
    nothing = tuning_curves(np.ones((784, 3)), SPACE).summary()
    assert np.isnan([nothing.stripe, nothing.weighted_bump, nothing.bump_share]).all()


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="activations contain NaN"):
        tuning_curves(ACTIVATIONS * np.nan, SPACE)
    with pytest.raises(NotComputable, match="at least two factors"):
        tuning_curves(np.ones((5, 2)), FactorSpace(x=5, y=1))
    with pytest.raises(InputError, match="numbered 0 to 9"):
        unit_maps(ACTIVATIONS, SPACE, [10])
