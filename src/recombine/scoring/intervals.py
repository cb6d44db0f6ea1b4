"""Intervals of means."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

RESAMPLES = 1000


def bootstrap_interval(
    values: Float[np.ndarray, " n"], *, resamples: int = RESAMPLES, seed: int = 0, level: float = 0.95
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean. NaN if there are no values or if one is NaN."""
    if len(values) == 0 or np.isnan(values).any():
        return math.nan, math.nan
    random = np.random.default_rng(seed)
    block = max(1, 2**22 // len(values))  # bounds memory for large grids
    means = [
        values[random.integers(len(values), size=(min(block, resamples - start), len(values)))].mean(1)
        for start in range(0, resamples, block)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
