"""The search for a threshold: on functions with a known crossing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recombine.core.errors import InputError
from recombine.studies.framework.search import bracket
from recombine.studies.paper.r09_scaling import points

pytestmark = pytest.mark.quick


@given(st.integers(0, 400), st.integers(1, 400), st.integers(1, 50))
def test_an_exact_search_finds_the_crossing_and_asks_each_number_once(crossing, most, start):
    asked = []

    def localization(bumps: int) -> float:
        asked.append(bumps)
        return float(bumps >= crossing)

    found = bracket(localization, most, start=start, resolution=0.0)
    assert len(set(asked)) == len(asked) <= 2 * math.log2(most + 1) + 3
    assert max(asked) <= most
    if crossing <= most:
        assert found.reached == crossing
        assert found.below == crossing - 1
    else:
        assert (found.reached, found.below) == (None, most)
        assert str(found) == f"not reached by {most}"


def test_a_coarse_search_stops_early_and_says_so():
    found = bracket(lambda bumps: bumps / 100, 400, resolution=0.1)
    assert found.below < 90 <= (found.reached or 0) <= found.below * 1.12
    assert len(found.tried) < 12


def test_a_search_that_ends_at_once_has_nothing_below_it():
    found = bracket(lambda bumps: 1.0, 400, least=1)
    assert (found.below, found.reached, str(found)) == (0, 1, "1")


def test_the_median_keeps_what_was_not_reached_apart():
    assert points([10.0, 20.0, 30.0]) == (20, 10, 30)
    assert points([math.inf] * 3) == (math.inf, math.inf, math.inf)
    middle, _, high = points([10.0, 20.0, 20.0, math.inf, math.inf])
    assert (middle, high) == (20, math.inf)
    assert points([7.0]) == (7, 7, 7)
    assert np.isfinite(points([10.0, 20.0, 30.0, 40.0])).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"least": 6}, "least=6, most=5"),
        ({"level": 1.5}, r"\(0, 1\]. Got 1.5"),
        ({"resolution": -1.0}, "resolution ≥ 0"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(InputError, match=message):
        bracket(lambda m: 1.0, 5, **options)
