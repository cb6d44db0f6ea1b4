"""Hold-outs that cannot be, or cannot be trained with, are explained."""

import numpy as np
import pytest
import torch

from recombine.core import holdouts
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, cyclic
from recombine.core.holdouts import (
    HOLDOUTS,
    any_of,
    centre,
    cross,
    gap,
    side,
)
from tests.core.holdouts.spaces import ONE, PLANE, message_of


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


def test_functions_take_the_factors_by_their_names() -> None:
    with pytest.raises(InputError, match=r"by name, here \(x, y\)"):
        holdouts.where(FactorSpace(x=8, y=8), lambda a, b: a > b)
