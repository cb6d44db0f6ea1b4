"""Tests over seeds against scipy and statsmodels."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from recombine.studies.framework.inference import (
    holm,
    mean_interval,
    mean_test,
    median_interval,
    power_of_mean_test,
    power_of_sign_test,
    rank_correlation,
    sd_upper,
    seeds_needed,
    seeds_needed_by_sign_test,
    sign_test,
)

pytestmark = pytest.mark.quick
EXACT = {"rel": 1e-8, "abs": 1e-12}
numbers = st.lists(st.floats(-10, 10), min_size=2, max_size=12).filter(lambda v: np.std(v) > 1e-3)


@given(numbers, st.floats(-5, 5))
def test_the_test_of_the_mean_is_students(values, threshold):
    found = mean_test(values, threshold)
    above = stats.ttest_1samp(values, threshold, alternative="greater")
    assert found.p_above == pytest.approx(above.pvalue, **EXACT)
    assert found.p_below == pytest.approx(stats.ttest_1samp(values, threshold, alternative="less").pvalue, **EXACT)
    interval = stats.ttest_1samp(values, threshold).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(interval), **EXACT)


def test_means_without_spread_and_of_too_few_seeds():
    assert mean_test([5.0, 5.0], 4.0).p_above == 0
    assert mean_test([5.0, 5.0], 4.0).p_below == 1
    assert mean_test([5.0, 5.0], 5.0).p_above == mean_test([5.0, 5.0], 5.0).p_below == 1
    assert mean_test([5.0], 4.0).p_above == 1
    assert all(map(math.isnan, mean_interval([])))


@given(st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=14))
def test_the_test_of_the_median_is_the_exact_binomial(values):
    found = sign_test(values, 0.0)
    above, below = sum(v > 0 for v in values), sum(v < 0 for v in values)
    if above + below:
        expected = stats.binomtest(above, above + below, alternative="greater").pvalue
        assert found.p_above == pytest.approx(expected, **EXACT)
    else:
        assert found.p_above == found.p_below == 1
    assert found.estimate == np.median(values)


@pytest.mark.parametrize("count", range(2, 21))
def test_the_interval_of_the_median_is_scipys(count):
    values = np.random.default_rng(count).standard_normal(count).tolist()
    low, high = median_interval(values)
    if count >= 6:
        theirs = stats.quantile_test(values, q=0, p=0.5).confidence_interval(0.95)
        assert (low, high) == pytest.approx(tuple(theirs), **EXACT)
    else:
        assert (low, high) == (min(values), max(values))


@settings(max_examples=15)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_holms_correction_is_that_of_statsmodels(values):
    assert holm(values) == pytest.approx(multipletests(values, method="holm")[1].tolist(), **EXACT)


@pytest.mark.parametrize(
    ("distance", "sd", "count", "alpha"), [(1.0, 1.0, 5, 0.025), (0.3, 0.5, 8, 0.0125), (2.0, 1.0, 3, 0.01)]
)
def test_power_is_that_of_statsmodels(distance, sd, count, alpha):
    expected = TTestPower().power(distance / sd, count, alpha, alternative="larger")
    assert power_of_mean_test(distance, sd, count, alpha) == pytest.approx(float(expected), **EXACT)


def test_the_number_of_seeds_has_the_power_and_one_less_has_not():
    count = seeds_needed(0.5, 0.4, alpha=0.0125)
    assert count is not None
    assert power_of_mean_test(0.5, 0.4, count, 0.0125) >= 0.8 > power_of_mean_test(0.5, 0.4, count - 1, 0.0125)
    theirs = TTestPower().solve_power(0.5 / 0.4, None, 0.0125, 0.8, alternative="larger")
    assert count == math.ceil(float(np.asarray(theirs).item()))
    assert seeds_needed(-0.1, 0.4) is None
    assert seeds_needed(0.5, 0.0) == 2


def test_the_upper_limit_of_a_spread_covers_it_as_often_as_it_says():
    random = np.random.default_rng(0)
    draws = random.standard_normal((4000, 3)).std(axis=1, ddof=1)
    assert np.mean([sd_upper(sd, 3) > 1 for sd in draws]) == pytest.approx(0.8, abs=0.02)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=3, max_size=10))
def test_the_rank_correlation_is_spearmans(pairs):
    x, y = zip(*pairs)
    if len(set(x)) > 1 and len(set(y)) > 1:
        assert rank_correlation(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, **EXACT)
    else:
        assert rank_correlation(x, y) == 0


@pytest.mark.parametrize(
    ("share", "count", "alpha"), [(0.6, 40, 0.025), (0.9, 12, 0.0125), (1.0, 6, 0.025), (0.8, 5, 0.01)]
)
def test_the_power_of_the_sign_test_counts_the_significant_outcomes(share, count, alpha):
    significant = [
        wins for wins in range(count + 1) if stats.binomtest(wins, count, 0.5, alternative="greater").pvalue <= alpha
    ]
    expected = sum(stats.binom.pmf(wins, count, share) for wins in significant)
    assert power_of_sign_test(share, count, alpha) == pytest.approx(expected, **EXACT)


def test_seeds_for_a_sign_test():
    assert seeds_needed_by_sign_test(1.0) == 6  # 2⁻⁶ is the first power of a half below 0.025
    assert seeds_needed_by_sign_test(0.5) is None
    needed = seeds_needed_by_sign_test(0.8)
    assert needed is not None
    assert power_of_sign_test(0.8, needed - 1) < 0.8
    assert all(power_of_sign_test(0.8, count) >= 0.8 for count in range(needed, 200))
