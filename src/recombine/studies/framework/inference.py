"""Tests over seeds, their correction for several parts, and the number of seeds they need.

Every test compares one number per seed with a threshold and returns two one-sided p-values: one for lying above the
threshold and one for lying below it. A part of a claim is decided if one of them is significant at `ALPHA` after Holm's
correction.

    mean_test([0.3, 0.4, 0.35], threshold=0.1)       # Student's t
    sign_test([0.3, 0.4, 0.35], threshold=0.1)       # exact, of the median
    holm([0.001, 0.02, 0.4])                         # adjusted p-values
    seeds_needed(distance=0.2, sd=0.2)               # for a power of 0.8
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ALPHA = 0.025  # one-sided, so a decision in either direction has a total level of 0.05
POWER = 0.8
MOST_SEEDS = 200  # designs that need more are considered infeasible


@dataclass(frozen=True)
class Tested:
    """The result of a test of one number per seed against a threshold.

    Attributes:
        estimate: Mean or median over seeds.
        low, high: 95 % interval; NaN with fewer than two seeds.
        p_above: p-value of the null hypothesis "not above the threshold"; small if the number lies above it.
        p_below: p-value of the null hypothesis "not below the threshold"; small if the number lies below it.
    """

    estimate: float
    low: float
    high: float
    p_above: float
    p_below: float


def mean_test(values: Sequence[float], threshold: float, level: float = 1 - 2 * ALPHA) -> Tested:
    """Student's t test of the mean over seeds. If all values are equal, the p-values are 0 or 1."""
    from scipy.stats import t

    estimate, low, high = mean_interval(values, level)
    count = len(values)
    if count < 2:
        return Tested(estimate, low, high, 1.0, 1.0)
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    if error == 0:
        above, below = float(estimate <= threshold), float(estimate >= threshold)
        return Tested(estimate, low, high, above, below)
    statistic = (estimate - threshold) / error
    return Tested(estimate, low, high, float(t.sf(statistic, count - 1)), float(t.cdf(statistic, count - 1)))


def mean_interval(values: Sequence[float], level: float = 1 - 2 * ALPHA) -> tuple[float, float, float]:
    """Mean and Student's t interval of the mean; NaN if there are too few numbers."""
    from scipy.stats import t

    if not len(values):
        return math.nan, math.nan, math.nan
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, math.nan, math.nan
    half = float(t.ppf((1 + level) / 2, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean, mean - half, mean + half


def sign_test(values: Sequence[float], threshold: float) -> Tested:
    """Exact sign test of the median over seeds. It ignores the size of differences, so it is robust to outliers.

    Seeds exactly at the threshold count for neither side.
    """
    from scipy.stats import binom

    count = len(values)
    if not count:
        return Tested(math.nan, math.nan, math.nan, 1.0, 1.0)
    above = sum(value > threshold for value in values)
    below = sum(value < threshold for value in values)
    tested = above + below
    p_above, p_below = (float(binom.sf(wins - 1, tested, 0.5)) if tested else 1.0 for wins in (above, below))
    return Tested(float(np.median(values)), *median_interval(values), p_above, p_below)


def median_interval(values: Sequence[float], level: float = 1 - 2 * ALPHA) -> tuple[float, float]:
    """Interval of the median: the narrowest pair of order statistics that covers it with probability `level` or more.

    With five seeds or fewer, no pair reaches this probability, and the smallest and largest values are returned.
    """
    from scipy.stats import binom

    ordered, count = sorted(values), len(values)
    if count < 2:
        return math.nan, math.nan
    inner = int(binom.ppf((1 - level) / 2, count, 0.5))  # largest number of values below the interval
    while inner > 0 and 1 - 2 * float(binom.cdf(inner - 1, count, 0.5)) < level:
        inner -= 1
    inner = max(inner, 1)
    return float(ordered[inner - 1]), float(ordered[count - inner])


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values. Rejecting those ≤ α keeps the family-wise error rate at or below α."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, greatest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        greatest = max(greatest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = greatest
    return adjusted


def power_of_mean_test(distance: float, sd: float, count: int, alpha: float = ALPHA) -> float:
    """Power of a one-sided t test with `count` seeds at level `alpha`, for a mean `distance` beyond the threshold."""
    from scipy.stats import nct, t

    if count < 2 or distance <= 0:
        return 0.0
    if sd == 0:
        return 1.0
    return float(nct.sf(t.ppf(1 - alpha, count - 1), count - 1, distance / sd * math.sqrt(count)))


def seeds_needed(distance: float, sd: float, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """Smallest number of seeds that detects a mean this far beyond its threshold; None if above `MOST_SEEDS`."""
    counts = range(2, MOST_SEEDS + 1)
    return next((count for count in counts if power_of_mean_test(distance, sd, count, alpha) >= power), None)


def power_of_sign_test(share: float, count: int, alpha: float = ALPHA) -> float:
    """Power of a one-sided sign test with `count` seeds, if a seed lies on the tested side with probability `share`."""
    from scipy.stats import binom

    critical = int(binom.isf(alpha, count, 0.5)) + 1  # least number of seeds on the tested side that is significant
    return float(binom.sf(critical - 1, count, share))


def seeds_needed_by_sign_test(share: float, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """Number of seeds from which on a sign test has this power; None if above `MOST_SEEDS`.

    The power of an exact test is not monotonic in the number of seeds, so all larger numbers suffice, too.
    """
    weak = [count for count in range(1, MOST_SEEDS + 1) if power_of_sign_test(share, count, alpha) < power]
    needed = max(weak, default=0) + 1
    return needed if needed <= MOST_SEEDS else None


def sd_upper(sd: float, count: int, confidence: float = 0.8) -> float:
    """Upper confidence limit of a standard deviation that was estimated from few seeds (Browne 1995).

    A design that takes the estimate of three seeds at face value has less power than it states.
    """
    from scipy.stats import chi2

    return sd * math.sqrt((count - 1) / float(chi2.ppf(1 - confidence, count - 1)))


def rank_correlation(x: Sequence[float | int], y: Sequence[float | int]) -> float:
    """Spearman's rank correlation; 0 if one side is constant, NaN if a number is missing."""
    from scipy.stats import rankdata

    if not np.isfinite([*x, *y]).all():
        return math.nan
    if len(set(x)) == 1 or len(set(y)) == 1:
        return 0.0
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])
