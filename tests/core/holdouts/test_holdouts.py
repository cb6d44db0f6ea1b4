"""Hold-outs: the contract every one keeps, counts known by hand or brute force, and their algebra."""

import itertools
import json
import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recombine.core import holdouts
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, continuous, cyclic, discrete
from recombine.core.holdouts import (
    HOLDOUTS,
    Holdout,
    all_but,
    all_of,
    any_of,
    centre,
    corner,
    cross,
    gap,
    orthotopic,
    random,
    side,
)

PLANE = FactorSpace(x=28, y=28)
ONE = FactorSpace(x=4, y=4)
SPACES = {
    "n=1": FactorSpace(x=28),
    "n=2": PLANE,
    "n=3": FactorSpace(x=16, angle=cyclic(24.0, 24), y=continuous(0.0, 32.0, 16)),
    "n=4": FactorSpace(x=11, y=12, size=discrete(11, low=1.0), brightness=discrete(11)),
    "labelled": FactorSpace(x=12, size=[0, 1, 2.5, 4, 7, 9, 10, 12.5], colour=["red", "green", "blue"]),
}
# Every kind is under contract by being registered. Those whose defaults do not fit SPACES have settings here.
SETTINGS: dict[str, dict] = {
    "centre": {"lo": 3.0, "hi": 10.0},
    "corner": {"threshold": 7.0, "lower": True},
    "cross": {"lo": 4.0, "hi": 8.0, "margin": 2},
    "random": {"fraction": 0.3, "seed": 1},
    "side": {"fraction": 0.4, "at": "corner"},
    "orthotopic": {"c": 0, "thresholds": 9.0},
    "gap": {"factor": "x", "lo": 3.0, "hi": 5.0, "inclusive": False},
    "cells": {"cells": [{"x": 3}, {"x": {"min": 6, "max": 8}}, {"x": [1, "2"]}]},
    "extrapolation": {"factor": "x", "fraction": 0.3},
    "recombination_to_range": {"value": {"x": 3}},
    "recombination_to_element": {},
    "connected": {"fraction": 0.3},
    "montero": {"data": "mpi3d", "split": "recombination_to_range"},
    "any_of": {"parts": [{"kind": "centre", "lo": 4, "hi": 8, "factors": ["x"]},
                         {"kind": "gap", "factor": "x", "lo": 2, "hi": 3}]},
    "all_of": {"parts": [{"kind": "comb"}, {"kind": "gap", "factor": "x", "lo": 2, "hi": 8}]},
    "all_but": {"part": {"kind": "random"}},
}  # fmt: skip
BOUNDED = ("centre", "corner", "cross", "orthotopic")  # take numbers of all factors that have an order
FEWEST = {"diagonal": 2, "levels": 2, "connected": 2, "disconnected": 2, "recombination_to_range": 2,
          "recombination_to_element": 3}  # fmt: skip
OWN_SPACES = {"montero": {"mpi3d": FactorSpace(object_shape=list("abcdef"), horizontal_axis=40, z=2)}}
IN_A_TASK = {"data"}  # known only with a scene: tests/core/test_images_scene.py
CASES = {
    f"{kind}-{name}": (kind, space)
    for kind in HOLDOUTS.components
    if kind not in IN_A_TASK
    for name, space in OWN_SPACES.get(kind, SPACES).items()
    if space.n_factors >= FEWEST.get(kind, 1)
}
cases = pytest.mark.parametrize(("kind", "space"), CASES.values(), ids=CASES)


def build(kind: str, space: FactorSpace) -> Holdout:
    settings = dict(SETTINGS.get(kind, {}))
    if kind == "mask":
        settings = {"lengths": [0, 5, len(space) - 12, 7]}
    if kind == "recombination_to_range":
        settings["factor"] = space.names[-1]
    if kind == "recombination_to_element":
        settings["element"] = {name: list(factor.labels[:2]) for name, factor in space.factors.items()}
    if kind in BOUNDED:
        settings["factors"] = list(space.differentiable)
    return HOLDOUTS.build({"kind": kind, **settings}, space)


# --- contract ---------------------------------------------------------------------------------------------------


@cases
def test_id_and_ood_partition_the_grid(kind, space):
    held = build(kind, space)
    assert held.mask.shape == space.shape
    assert held.n_id + held.n_ood == len(space)
    assert held.n_ood == len(held.ood_cells) == held.mask.sum() > 0
    assert held.n_id == len(held.id_cells) > 0
    assert sorted(held.id_cells.tolist() + held.ood_cells.tolist()) == list(range(len(space)))
    assert bool(held.contains(space.values(held.ood_cells)).all())
    assert not bool(held.contains(space.values(held.id_cells)).any())


@cases
def test_configuration_rebuilds_the_same_holdout(kind, space):
    held = build(kind, space)
    again = HOLDOUTS.build(json.loads(json.dumps(held.config)), FactorSpace.from_config(space.to_config()))
    assert again.config == held.config
    assert again.hash == held.hash
    assert np.array_equal(again.mask, held.mask)


@cases
def test_contains_takes_any_leading_shape_and_type(kind, space):
    held = build(kind, space)
    cells = torch.arange(len(space))[: len(space) // 2 * 2].reshape(2, -1)
    expected = torch.from_numpy(held.mask.ravel())[cells]
    assert torch.equal(held.contains(space.values(cells)), expected)
    assert torch.equal(held.contains(space.values(cells).double()), expected)
    whole = space.values(cells).int()
    assert torch.equal(held.contains(whole), held.contains(whole.float()))


@cases
def test_repr_counts_and_names(kind, space):
    held = build(kind, space)
    assert f"{held.n_ood} of {len(space)} cells held out ({100 * held.n_ood / len(space):.1f} %)" in repr(held)
    assert repr(space) in repr(held)
    sign = {"any_of": " | ", "all_of": " & ", "all_but": "~random(", "mask": "mask"}.get(kind, f"{kind}(")
    assert sign in repr(held)


@cases
def test_picture_has_a_sign_per_cell(kind, space):
    held = build(kind, space)
    rows = held.picture().split("\n")
    columns, lines = (*space.shape, 1)[:2]
    assert [len(row) for row in rows] == [columns] * lines
    for i, j in itertools.product(range(columns), range(lines)):
        share = held.mask[i].mean() if space.n_factors == 1 else held.mask[i, j].mean()
        assert rows[lines - 1 - j][i] == {0.0: "·", 1.0: "█"}.get(float(share), "░")


@cases
def test_coverage_by_brute_force(kind, space):
    held = build(kind, space)
    trained = space.values(held.id_cells)
    unseen = {
        name: [float(v) for v in factor.grid() if not (trained[:, axis] == v).any()]
        for axis, (name, factor) in enumerate(space.factors.items())
    }
    coverage = held.coverage()
    assert coverage.unseen == unseen
    assert coverage.complete == (not any(unseen.values()))


def test_picture_of_a_small_centre():
    assert centre(FactorSpace(x=5, y=4), 1, [3, 1], factors=["x", "y"]).picture() == "·····\n·····\n·███·\n·····"


# --- counts known beforehand ------------------------------------------------------------------------------------


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


# --- availability -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_every_cell_is_trained_on_held_out_or_unavailable(space):
    available = np.random.default_rng(0).random(space.shape) < 0.7
    held = random(space, 0.4)
    limited = held.within(available)
    assert np.array_equal(limited.available, available)
    assert np.array_equal(limited.mask, held.mask)
    assert np.array_equal(limited.id_mask, available & ~held.mask)
    assert np.array_equal(limited.ood_mask, available & held.mask)
    assert limited.n_id + limited.n_ood + limited.n_unavailable == len(space)
    assert torch.cat([limited.id_cells, limited.ood_cells]).sort().values.equal(limited.available_cells)
    assert limited.config == held.config
    assert limited.within(available.ravel()).hash == limited.hash != held.hash
    assert held.within(np.ones(space.shape, bool)).hash == held.hash
    assert (held.n_unavailable, held.available.all()) == (0, True)


def test_availability_survives_the_algebra():
    a, b = centre(PLANE), corner(PLANE, 20)
    even, low = np.indices((28, 28)).sum(0) % 2 == 0, np.indices((28, 28))[0] < 25
    for made, rule in (
        (a.within(even) | b.within(low), a.mask | b.mask),
        ((a | a).within(even) | b.within(low), a.mask | b.mask),
        (a.within(even) & b.within(low), a.mask & b.mask),
        (~(~a.within(even & low)), a.mask),
        (~((~a).within(even & low)), a.mask),
        (~a.within(even & low), ~a.mask),
    ):
        assert np.array_equal(made.ood_mask, rule & even & low)
        assert np.array_equal(made.id_mask, ~rule & even & low)


def test_unavailable_cells_are_told_and_drawn():
    space = FactorSpace(a=3, b=["low", "high"], c=2)
    held = holdouts.mask(space, np.arange(12) % 3 == 0).within(np.arange(12) // 2 % 3 != 2)
    assert "of 8 cells held out" in repr(held)
    assert "4 unavailable" in repr(held)
    assert held.picture().splitlines() == ["░░/", "░/░"]
    assert np.isnan(held.share()).sum() == 2


def test_a_value_that_never_occurs_is_not_unseen():
    """It is only unseen if it is held out somewhere and trained on nowhere."""
    held = holdouts.mask(ONE, np.eye(4, dtype=bool))
    assert held.within(np.indices((4, 4))[0] != 2).coverage().complete
    no_training = held.within((np.indices((4, 4))[0] != 2) | held.mask)
    assert no_training.coverage().unseen == {"x": [2.0], "y": []}
    assert "x ∈ {2}" in str(no_training.coverage())
    assert "No cell of" in message_of(held.within(np.zeros((4, 4), bool)).check)
    assert "there are no ID cells" in message_of(held.within(held.mask).check)


# --- hash -------------------------------------------------------------------------------------------------------


def test_hash_names_what_is_held_out_not_how_it_is_written():
    assert centre(PLANE, 6, 22).hash == centre(PLANE, [6, 6], [22, 22]).hash == holdouts.mask(
        PLANE, centre(PLANE).mask
    ).hash  # fmt: skip
    assert centre(PLANE).hash != centre(PLANE, 6, 21).hash
    other = FactorSpace(y=28, x=28)
    assert centre(PLANE).hash != centre(other).hash


def test_hash_is_stable():
    """A golden number: a change of it renames every stored run. Regenerate: centre(FactorSpace(x=28, y=28)).hash."""
    assert centre(PLANE, 6, 22).hash == "9f01f8f6c310bfc2"


# --- algebra ----------------------------------------------------------------------------------------------------

SMALL = FactorSpace(a=4, b=cyclic(3.0, 3), c=2)
masks = st.lists(st.booleans(), min_size=24, max_size=24)
configs = st.one_of(
    st.lists(st.integers(0, 24), min_size=3, max_size=3).map(
        lambda cuts: {"kind": "mask", "lengths": np.diff([0, *sorted(cuts), 24]).tolist()}
    ),
    st.builds(lambda c, t: {"kind": "orthotopic", "c": c, "thresholds": t}, st.integers(0, 2), st.integers(0, 1)),
    st.builds(
        lambda name, ends: {"kind": "gap", "factor": name, "lo": min(ends), "hi": max(ends)},
        st.sampled_from("ab"),
        st.tuples(st.integers(0, 2), st.integers(0, 2)),
    ),
    st.builds(lambda seed: {"kind": "random", "fraction": 0.5, "seed": seed}, st.integers(0, 5)),
)


def small(*given: dict) -> list[Holdout]:
    return [HOLDOUTS.build(config, SMALL) for config in given]


@given(configs, configs)
def test_de_morgan(a, b):
    a, b = small(a, b)
    assert (~(a | b)).hash == (~a & ~b).hash
    assert (~(a & b)).hash == (~a | ~b).hash


@given(configs)
def test_complement(a):
    [a] = small(a)
    assert (~~a).hash == a.hash
    assert ((~a).n_ood, (~a).n_id) == (a.n_id, a.n_ood)
    assert (a & ~a).n_ood == 0
    assert (a | ~a).n_id == 0


@settings(max_examples=15)
@given(configs, configs, configs)
def test_union_and_intersection(a, b, c):
    a, b, c = small(a, b, c)
    assert (a | b).hash == (b | a).hash
    assert (a & b).hash == (b & a).hash
    assert (a | b | c).hash == (a | (b | c)).hash == any_of(SMALL, parts=[a.config, b.config, c.config]).hash
    assert (a & b & c).hash == (a & (b & c)).hash == all_of(SMALL, parts=[a.config, b.config, c.config]).hash
    assert (a & (b | c)).hash == ((a & b) | (a & c)).hash
    assert (a | a).hash == (a & a).hash == a.hash
    assert np.array_equal((a | b).mask, a.mask | b.mask)
    assert np.array_equal((a & b).mask, a.mask & b.mask)


@given(configs, configs)
def test_counts_add_up(a, b):
    a, b = small(a, b)
    assert (a | b).n_ood + (a & b).n_ood == a.n_ood + b.n_ood
    assert a.n_id + a.n_ood == len(SMALL)


def test_a_combination_has_the_configuration_of_its_parts_in_one_list():
    a, b, c = centre(PLANE), corner(PLANE, 20), gap(PLANE, "x", 3, 5)
    assert (a | b).config == {"kind": "any_of", "parts": [a.config, b.config]}
    assert (a & b).config == {"kind": "all_of", "parts": [a.config, b.config]}
    assert (~a).config == {"kind": "all_but", "part": a.config}
    assert (a | b | c).config == (a | (b | c)).config == {"kind": "any_of", "parts": [a.config, b.config, c.config]}
    assert (a & b & c).config == (a & (b & c)).config == {"kind": "all_of", "parts": [a.config, b.config, c.config]}
    assert ((a | b) & c).config == {"kind": "all_of", "parts": [(a | b).config, c.config]}
    assert (any_of(PLANE, parts=[a.config, b.config]) | c).config == (a | b | c).config
    assert (~~a).config == (~all_but(PLANE, part=a.config)).config == a.config


def in_a_process_of_its_own(program: str) -> None:
    """Without the type checks of the tests, which take time and three times the stack."""
    header = "import functools, operator\nfrom recombine.runs.config import *\nfrom recombine.core.holdouts import *\n"
    subprocess.run([sys.executable, "-c", header + textwrap.dedent(program)], check=True)


def test_a_thousand_hold_outs_combine_in_a_loop():
    in_a_process_of_its_own("""
        space = FactorSpace(x=28, y=28)
        parts = [centre(space, i % 20, i % 20 + 1) for i in range(1000)]
        held = functools.reduce(operator.or_, parts)
        assert held.n_ood == 20 * 4 - 19  # squares of four that share a corner
        assert HOLDOUTS.build(held.config, space).hash == held.hash
    """)


def test_hold_outs_nest_to_a_depth_at_which_their_configuration_can_be_read():
    in_a_process_of_its_own("""
        space = FactorSpace(x=28, y=28)
        held, other = centre(space), corner(space, 20)
        for _ in range(50):
            held = ~(held | other)
        config = RunConfig.from_dict({"holdout": held.config, "training": {"allow_unseen": True}})
        assert RunConfig.from_dict(config.to_dict()).task().holdout.hash == held.hash
        try:
            held | other
        except InputError as error:
            assert "nested more than 100 levels deep" in str(error)
        else:
            raise AssertionError("it can be nested further")
    """)


def test_a_configuration_nested_too_deeply_is_explained():
    config = {"kind": "centre"}
    for _ in range(400):
        config = {"kind": "all_but", "part": config}
    message = message_of(lambda: HOLDOUTS.build(config, PLANE))
    assert message == message_of(lambda: HOLDOUTS.validate(config))
    assert "nested more than 100 levels deep" in message
    assert len(message.splitlines()) == 1


@given(masks)
def test_mask_round_trip(held):
    made = holdouts.mask(SMALL, held)
    assert made.mask.ravel().tolist() == held
    assert made.n_ood == sum(held)
    shaped = np.array(held, dtype=int).reshape(SMALL.shape)
    assert holdouts.mask(SMALL, shaped).config == made.config
    assert HOLDOUTS.build(made.config, SMALL).mask.ravel().tolist() == held


@given(configs, configs)
def test_hash_is_equal_iff_the_masks_are(a, b):
    a, b = small(a, b)
    assert (a.hash == b.hash) == np.array_equal(a.mask, b.mask)


@given(configs, configs)
def test_combined_repr_shows_the_formula(a, b):
    a, b = small(a, b)
    assert repr(~a).startswith("<~")
    assert " | " in repr(a | b)
    assert " & " in repr(a & b)


# --- bad input --------------------------------------------------------------------------------------------------


def message_of(make) -> str:
    with pytest.raises(InputError) as caught:
        make()
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: centre(ONE),
            "lo=6 lies outside the range of factor 'x', whose values range from 0 to 3. Choose a bound in this range",
        ),
        (
            lambda: centre(ONE, 2, 1),
            "Bounds of factor 'x' must have lo ≤ hi (only cyclic factors wrap around). Got lo=2, hi=1.",
        ),
        (
            lambda: centre(ONE, [1, 1, 1], 2),
            "'lo' needs one number, or one for each of 2 factors. Got [1.0, 1.0, 1.0].",
        ),
        (
            lambda: centre(ONE, 1, 2, factors=["x", "x"]),
            "must be distinct factors of FactorSpace(x=4, y=4). Got ['x', 'x'].",
        ),
        (lambda: centre(ONE, 1, 2, factors=["z"]), "no factor 'z' in FactorSpace(x=4, y=4). Factors: x, y."),
        (
            lambda: side(ONE, 0.2),
            "fraction=0.2 of the 4 values of factor 'x' is less than one value. Use at least 0.25.",
        ),
        (lambda: side(ONE, 1.0), "less than 1. Got 1.0 instead."),
        (lambda: gap(ONE, "z", 1, 2), "There is no factor 'z'"),
        (lambda: gap(ONE, "x", 2, 2, inclusive=False), "A gap that excludes its ends requires lo ≠ hi. Got lo=hi=2"),
        (lambda: gap(FactorSpace(a=cyclic(9.0, 9)), "a", 2, 2, inclusive=False), "requires lo ≠ hi"),
        (
            lambda: gap(FactorSpace(a=cyclic(9.0, 9)), "a", 2, 9),
            "hi=9 lies outside the range of factor 'a', whose values range from 0 up to but excluding 9.",
        ),
        (lambda: any_of(ONE, parts=[]), "at least 1 entry"),
        (
            lambda: cross(FactorSpace(x=28, y=9), 4, 5, margin=99),
            "margin=99 leaves no values of factor 'x' between its margins. Its 28 values allow at most margin=13.",
        ),
        (
            lambda: cross(FactorSpace(x=28, a=cyclic(8.0, 8)), 4, 5, margin=4),
            "margin=4 leaves no values of factor 'a' between its margins. Its 8 values allow at most margin=3.",
        ),
        (
            lambda: cross(FactorSpace(x=2, y=2), 0, 1),
            "A cross requires factors with at least 3 values. Got 2 for factor 'x'.",
        ),
        (lambda: centre(ONE, 1, 2).contains(torch.zeros(3, 1)), "one column per factor (x, y). Got shape (3, 1)."),
        (
            lambda: holdouts.from_run_lengths(ONE, lengths=[3, 4]),
            "must add up to the 16 cells of FactorSpace(x=4, y=4). Got a sum of 7.",
        ),
        (lambda: holdouts.mask(ONE, np.zeros((4, 5), bool)), "must have shape (4, 4) or (16,). Got (4, 5)."),
        (lambda: holdouts.mask(ONE, np.full((4, 4), 0.5)), "only true and false (or 1 and 0). Got other values."),
        (
            lambda: holdouts.where(ONE, lambda x, y: torch.tensor(True)),
            "one boolean per cell, shape (16,). Got shape ().",
        ),
        (
            lambda: gap(ONE, "x", 1, 2) | gap(FactorSpace(x=5), "x", 1, 2),
            "only if they share a factor space. Got FactorSpace(x=4, y=4) and FactorSpace(x=5).",
        ),
        (lambda: HOLDOUTS.build({"kind": "center"}, ONE), "no holdout of kind 'center' (did you mean 'centre'?)."),
    ],
)
def test_bad_input_is_explained(make, message):
    assert message in message_of(make)


def test_check_wants_both_splits_and_every_value():
    centre(PLANE).check()
    empty, full = holdouts.mask(ONE, [0] * 16), holdouts.mask(ONE, [1] * 16)
    assert "is empty, so there are no OOD cells. Choose wider bounds." in message_of(empty.check)
    assert "covers the whole grid, so there are no ID cells. Choose narrower bounds." in message_of(full.check)
    unseen = gap(PLANE, "x", 6, 7) | centre(PLANE)
    message = message_of(unseen.check)
    assert "never seen in training: x ∈ {6, 7}" in message
    assert "allow_unseen=True" in message
    unseen.check(allow_unseen=True)
    assert "there are no OOD cells" in message_of(lambda: empty.check(allow_unseen=True))


def test_long_lists_of_unseen_values_are_cut():
    assert str(gap(PLANE, "x", 0, 9).coverage()).endswith("x ∈ {0, 1, 2, 3, 4, 5, 6, 7, … (10 values)}")


def test_values_beyond_a_cyclic_range_are_wrapped():
    ring = FactorSpace(a=cyclic(360.0, 12))
    held = holdouts.gap(ring, "a", 330.0, 30.0)
    values = torch.tensor([[450.0], [-90.0], [90.0], [270.0], [360.0], [-30.0], [690.0]])
    assert held.contains(values).tolist() == [False, False, False, False, True, True, True]


def test_functions_take_the_factors_by_their_names() -> None:
    with pytest.raises(InputError, match=r"by name, here \(x, y\)"):
        holdouts.where(FactorSpace(x=8, y=8), lambda a, b: a > b)


def test_a_rule_that_gives_numbers_counts_as_true_or_false():
    space = FactorSpace(x=8, y=8)
    for kind in (torch.long, torch.float):
        held = holdouts.Holdout(space, lambda values, kind=kind: (values[..., 0] > 5).to(kind))
        assert (held.n_ood, (~held).n_ood, (held | ~held).n_ood) == (16, 48, 64)


def test_parts_that_double_in_every_round_are_stopped_with_advice():
    space = FactorSpace(x=8, y=8)
    one = holdouts.centre(space, 2, 5)

    def combine(held):
        for _ in range(40):
            held = (held & ~one) | (one & ~held)

    with pytest.raises(InputError, match=r"at most 10000 parts.*holdouts\.mask"):
        combine(one)
