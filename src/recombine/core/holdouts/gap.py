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

    lo > hi wraps around on a cyclic factor. By itself a gap takes single values out of training: intersect it
    with another hold-out, or allow unseen values.
    """
    axis = space.axis(factor)
    [lo], [hi] = per_axis(space, [axis], lo, "lo"), per_axis(space, [axis], hi, "hi")
    if not inclusive:
        if lo == hi:
            raise InputError(f"A gap without its ends needs lo ≠ hi. Got lo=hi={lo:g}, which holds nothing out.")
        shrink = space.factors[factor].spacing * 1e-3
        lo, hi = lo + shrink, hi - shrink
    inside = between(space, [axis], [lo], [hi])
    return Holdout(space, lambda values: inside(values).all(-1))
