"""Unions, intersections and complements of hold-outs, and the hash of what they hold out."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recombine.core import holdouts
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, cyclic
from recombine.core.holdouts import (
    HOLDOUTS,
    Holdout,
    all_but,
    all_of,
    any_of,
    centre,
    corner,
    gap,
)
from tests.core.holdouts.spaces import PLANE, message_of


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


def test_parts_that_double_in_every_round_are_stopped_with_advice():
    space = FactorSpace(x=8, y=8)
    one = holdouts.centre(space, 2, 5)

    def combine(held):
        for _ in range(40):
            held = (held & ~one) | (one & ~held)

    with pytest.raises(InputError, match=r"at most 10000 parts.*holdouts\.mask"):
        combine(one)
