"""The box in a corner."""

from __future__ import annotations

import math

from recombine.core.factors import FactorSpace
from recombine.core.holdouts.bounds import Bound, between, chosen_axes, chosen_factors, per_axis
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout


@HOLDOUTS.register("corner")
def corner(
    space: FactorSpace, threshold: Bound = 12.0, lower: bool = False, factors: list[str] | None = None
) -> Holdout:
    """Held out iff every factor is at or above its threshold; `lower` gives the mirror image at the low corner.

    N = 32, threshold 12: 400 of 1024 cells, either way.
    """
    axes = chosen_axes(space, factors)
    thresholds = per_axis(space, axes, threshold, "threshold")
    edges = [(factor.low, factor.high) for _, factor in chosen_factors(space, axes)]
    if lower:
        lows = [low for low, _ in edges]
        highs = [low + high - t for (low, high), t in zip(edges, thresholds)]
    else:
        lows, highs = thresholds, [math.inf] * len(axes)
    inside = between(space, axes, lows, highs)
    return Holdout(space, lambda values: inside(values).all(-1))
