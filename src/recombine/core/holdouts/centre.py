"""The box in the centre."""

from __future__ import annotations

from recombine.core.factors import FactorSpace
from recombine.core.holdouts.bounds import Bound, between, chosen_axes, per_axis
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout


@HOLDOUTS.register("centre")
def centre(space: FactorSpace, lo: Bound = 6.0, hi: Bound = 22.0, factors: list[str] | None = None) -> Holdout:
    """A box: held out iff lo ≤ value ≤ hi for every factor (or every one of `factors`). The "square donut".

    `lo` and `hi` are one number for all factors or a list with one per factor. N = 28, [6, 22]: 289 of 784 cells.
    """
    axes = chosen_axes(space, factors)
    inside = between(space, axes, per_axis(space, axes, lo, "lo"), per_axis(space, axes, hi, "hi"))
    return Holdout(space, lambda values: inside(values).all(-1))
