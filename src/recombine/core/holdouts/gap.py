"""The gap: an interval of one factor's values."""

from __future__ import annotations

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts.bounds import between, per_axis
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout
from recombine.core.registry import Finite


@HOLDOUTS.register("gap")
def gap(space: FactorSpace, factor: str, lo: Finite, hi: Finite, inclusive: bool = True) -> Holdout:
    """Every combination whose `factor` lies in [lo, hi], or in (lo, hi) if not inclusive.

    lo > hi wraps around on a cyclic factor. On its own, a gap removes single values from training. Intersect it with
    another hold-out, or allow unseen values.
    """
    axis = space.axis(factor)
    [lo], [hi] = per_axis(space, [axis], lo, "lo"), per_axis(space, [axis], hi, "hi")
    if not inclusive:
        if lo == hi:
            raise InputError(
                f"A gap that excludes its ends requires lo ≠ hi. Got lo=hi={lo:g}, which holds out nothing."
            )
        shrink = space.factors[factor].spacing * 1e-3
        lo, hi = lo + shrink, hi - shrink
    inside = between(space, [axis], [lo], [hi])
    return Holdout(space, lambda values: inside(values).all(-1))
