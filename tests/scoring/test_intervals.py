"""Bootstrap intervals: seeded, of the right width, covering as often as they say."""

import math

import numpy as np
import pytest

from recombine.scoring.intervals import bootstrap_interval


def test_bootstrap_interval_is_sane():
    values = np.random.default_rng(0).normal(size=200)
    low, high = bootstrap_interval(values, seed=3)
    assert (low, high) == bootstrap_interval(values, seed=3)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / math.sqrt(200), rel=0.15)
    narrow = bootstrap_interval(values, seed=3, level=0.5)
    assert low < narrow[0] < narrow[1] < high
    assert bootstrap_interval(np.full(5, 2.0)) == (2.0, 2.0)


def test_bootstrap_interval_covers_the_true_mean_as_often_as_it_says():
    random = np.random.default_rng(0)
    hits = 0
    for trial in range(400):
        low, high = bootstrap_interval(random.normal(size=60), resamples=300, seed=trial)
        hits += low <= 0 <= high
    assert 0.90 <= hits / 400 <= 0.98


def test_bootstrap_interval_of_nothing_is_not_a_number():
    assert all(map(math.isnan, bootstrap_interval(np.array([]))))
    assert all(map(math.isnan, bootstrap_interval(np.array([1.0, math.nan]))))


def test_bootstrap_interval_of_many_values_works_in_blocks():
    values = np.random.default_rng(0).uniform(size=50_000)
    low, high = bootstrap_interval(values, resamples=100)
    assert low < values.mean() < high
    assert high - low < 0.01
