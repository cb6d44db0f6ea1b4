"""The orthotopic split."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from recombine.core.factors import FactorSpace
from recombine.core.holdouts.bounds import Bound, between, chosen_axes, per_axis
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout


@HOLDOUTS.register("orthotopic")
def orthotopic(
    space: FactorSpace,
    c: Annotated[int, Field(ge=0)] = 1,
    thresholds: Bound = 12.0,
    factors: list[str] | None = None,
) -> Holdout:
    """Trained on iff at most `c` factors are at or above their threshold; held out iff more are."""
    axes = chosen_axes(space, factors)
    above = between(space, axes, per_axis(space, axes, thresholds, "thresholds"), [math.inf] * len(axes))
    return Holdout(space, lambda values: above(values).sum(-1) > c)
