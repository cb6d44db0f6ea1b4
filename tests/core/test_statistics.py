"""Medians and ratios: unknown values and zero denominators."""

import math

import numpy as np
import pytest

from recombine.core.statistics import median, ratio

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0, 1.0, 2.0], 2.0),
        ([1.0, 2.0], 1.5),
        ([1.0, NAN, 3.0, NAN], 2.0),
        ([1.0, NAN, NAN], NAN),
        ([NAN], NAN),
        ([], NAN),
        ([1.0, INF], INF),
        ([1.0, 2.0, INF], 2.0),
        ([INF, INF], INF),
    ],
)
def test_median(values, expected):
    assert median(values) == pytest.approx(expected, nan_ok=True)
    assert median(np.array(values)) == pytest.approx(expected, nan_ok=True)
    assert isinstance(median(value for value in values), float)


def test_ratio():
    assert ratio(1.0, 4.0) == 0.25
    assert isinstance(ratio(1.0, 4.0), float)
    assert math.isnan(ratio(1.0, 0.0))
    assert np.array_equal(ratio(np.array([1.0, 1.0, 0.0]), [2.0, 0.0, -1.0]), [0.5, NAN, NAN], equal_nan=True)
