"""Hold-outs whose cells are known by hand or by brute force."""

import itertools
import math

import numpy as np
import pytest
import torch

from recombine.core import holdouts
from recombine.core.factors import FactorSpace, continuous, cyclic, discrete
from recombine.core.holdouts import (
    centre,
    corner,
    cross,
    gap,
    orthotopic,
    random,
    side,
)
from tests.core.holdouts.spaces import PLANE, SPACES


def test_centre_of_the_paper():
    held = centre(PLANE, 6, 22)
    assert (held.n_ood, held.n_id) == (289, 495)
    assert held.mask[6, 22]
    assert held.mask[22, 6]
    assert not held.mask[5, 6]
    assert not held.mask[23, 22]
    assert held.coverage().complete
    assert centre(PLANE, 10, 18).n_ood == 81
    assert centre(PLANE).hash == held.hash


@pytest.mark.parametrize("lower", [False, True])
def test_corner_of_the_paper_both_ways(lower):
    held = corner(FactorSpace(x=32, y=32), 12, lower=lower)
    assert (held.n_ood, len(held.space)) == (400, 1024)
    assert held.mask[0, 0] == lower
    assert held.mask[31, 31] != lower
    assert held.mask[12, 12]
    assert held.mask[19, 19]
    assert held.mask[11, 12] == lower
    assert held.mask[19, 20] != lower


def test_lower_corner_is_the_mirror_image():
    space = FactorSpace(x=9, y=discrete(7, low=1.0, step=0.5), z=5)
    upper, lower = (corner(space, [4, 2, 3], lower=lower).mask for lower in (False, True))
    assert np.array_equal(lower, upper[::-1, ::-1, ::-1])


@pytest.mark.parametrize("name", [name for name in SPACES if name != "labelled"])
def test_centre_is_a_box_for_any_number_of_factors(name):
    space = SPACES[name]
    lows, highs = [3.0] * space.n_factors, [9.0] * space.n_factors
    inside = [int(((f.grid() >= 3) & (f.grid() <= 9)).sum()) for f in space.factors.values()]
    assert centre(space, lows, highs).n_ood == math.prod(inside)
    assert centre(space, 3, 9, factors=["x"]).n_ood == inside[0] * len(space) // space.shape[0]


@pytest.mark.parametrize("size", [20, 28, 100, 101])
@pytest.mark.parametrize("fraction", [0.05, 0.2, 0.29, 0.3, 0.57, 0.58, 0.6, 0.999])
@pytest.mark.parametrize("at", ["centre", "corner"])
def test_side_holds_out_the_floor_of_the_fraction(size, fraction, at):
    count = round(fraction * 1000) * size // 1000  # whole-number arithmetic: 0.29 · 100 is 29, not 28
    held = side(FactorSpace(x=size, y=size), fraction, at=at)
    assert held.n_ood == count**2
    start = (size - count) // 2 if at == "centre" else size - count
    assert held.mask[start, start]
    assert held.mask[start + count - 1, start + count - 1]


def test_side_fraction_is_exact():
    assert math.floor(0.29 * 100) == 28  # what floating point would say
    assert side(FactorSpace(x=100, y=100), 0.29).n_ood == 29**2
    assert side(FactorSpace(x=10, y=20, z=30), 0.5).n_ood == 5 * 10 * 15


@pytest.mark.parametrize("n_factors", [1, 2, 3, 4])
@pytest.mark.parametrize("c", [0, 1, 2])
def test_orthotopic_by_brute_force(n_factors, c):
    shape, thresholds = (5, 4, 3, 6)[:n_factors], [3, 2, 1, 4][:n_factors]
    space = FactorSpace(**{f"f{i}": n for i, n in enumerate(shape)})
    held = orthotopic(space, c, thresholds)
    for cell in itertools.product(*(range(n) for n in shape)):
        trained = sum(v >= t for v, t in zip(cell, thresholds)) <= c
        assert held.mask[cell] != trained


def test_orthotopic_of_two_factors_is_the_corner():
    assert orthotopic(PLANE, 1, 12).hash == corner(PLANE, 12).hash
    assert orthotopic(PLANE, 0, 12).hash == (gap(PLANE, "x", 12, 27) | gap(PLANE, "y", 12, 27)).hash


@pytest.mark.parametrize("n_factors", [1, 2, 3])
def test_cross_by_brute_force(n_factors):
    space = FactorSpace(**{f"f{i}": 12 for i in range(n_factors)})
    held = cross(space, 5, 6, margin=3)
    for cell in itertools.product(range(12), repeat=n_factors):
        in_bar = sum(5 <= v <= 6 for v in cell)
        reached = all(3 <= v <= 8 for v in cell)
        assert held.mask[cell] == (reached and in_bar >= max(1, n_factors - 1))
    assert held.coverage().complete or n_factors == 1


@pytest.mark.parametrize(
    ("lo", "hi", "inclusive", "expected"),
    [
        (160, 200, False, [170, 180, 190]),
        (160, 200, True, [160, 170, 180, 190, 200]),
        (340, 20, False, [0, 10, 350]),
        (340, 20, True, [0, 10, 20, 340, 350]),
        (345, 15, True, [0, 10, 350]),
        (355, 5, False, [0]),
        (10, 20, False, []),
        (10, 10, True, [10]),
    ],
)
def test_gap_on_a_circle(lo, hi, inclusive, expected):
    space = FactorSpace(angle=cyclic(360.0, 36), x=3)
    held = gap(space, "angle", lo, hi, inclusive=inclusive)
    assert held.coverage().unseen["angle"] == expected
    assert held.n_ood == 3 * len(expected)
    if lo < hi:
        off_grid = torch.tensor([[lo + 0.01, 0.0], [hi - 0.01, 0.0], [lo - 0.1, 0.0], [hi + 0.1, 0.0]])
        assert held.contains(off_grid).tolist() == [True, True, False, False]


def test_random_is_seeded_and_exact():
    held = random(PLANE, 0.3, seed=4)
    assert held.n_ood == round(0.3 * 784)
    assert held.hash == random(PLANE, 0.3, seed=4).hash
    assert held.hash != random(PLANE, 0.3, seed=5).hash
    state = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002 (the global state is the point)
    random(PLANE, 0.3, seed=4)
    assert torch.equal(state[0], torch.get_rng_state())
    assert state[1] == np.random.get_state()[1].tolist()  # noqa: NPY002


@pytest.mark.parametrize("step", [0.1, 0.3, 1 / 7])
def test_bounds_survive_rounding_of_grid_values(step):
    space = FactorSpace(x=discrete(40, step=step))
    values = space.values(torch.arange(40))
    for k in range(40):
        held = gap(space, "x", k * step, k * step)
        assert held.ood_cells.tolist() == [k]
        assert held.contains(values.double()).nonzero().tolist() == [[k]]
    assert centre(FactorSpace(x=discrete(11, step=0.1), y=continuous(0.0, 1.1, 11)), 0.3, 0.7).n_ood == 25


def test_bounds_may_be_the_ends_of_the_range_as_people_write_them():
    space = FactorSpace(x=8, y=8, brightness=discrete(3, low=0.7, step=0.1))
    assert centre(space, 0.7, 0.9, factors=["brightness"]).n_id == 0


def test_where_takes_a_function_of_the_named_factors():
    held = holdouts.where(PLANE, lambda x, y: (x - y).abs() < 3)
    i, j = np.indices((28, 28))
    assert np.array_equal(held.mask, abs(i - j) < 3)
    assert holdouts.where(PLANE, lambda x, y: (x >= 6) & (x <= 22) & (y >= 6) & (y <= 22)).hash == centre(PLANE).hash


def test_values_beyond_a_cyclic_range_are_wrapped():
    ring = FactorSpace(a=cyclic(360.0, 12))
    held = holdouts.gap(ring, "a", 330.0, 30.0)
    values = torch.tensor([[450.0], [-90.0], [90.0], [270.0], [360.0], [-30.0], [690.0]])
    assert held.contains(values).tolist() == [False, False, False, False, True, True, True]


def test_a_rule_that_gives_numbers_counts_as_true_or_false():
    space = FactorSpace(x=8, y=8)
    for kind in (torch.long, torch.float):
        held = holdouts.Holdout(space, lambda values, kind=kind: (values[..., 0] > 5).to(kind))
        assert (held.n_ood, (~held).n_ood, (held | ~held).n_ood) == (16, 48, 64)
