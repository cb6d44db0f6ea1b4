"""The orthotopic split."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from pydantic import Field

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts.bounds import Bound, between, chosen_axes, chosen_factors, per_axis
from recombine.core.holdouts.conditions import share_of_values
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout

Proper = Annotated[float, Field(gt=0, lt=1)]


@HOLDOUTS.register("orthotopic")
def orthotopic(
    space: FactorSpace,
    c: Annotated[int, Field(ge=0, le=2**40)] = 1,
    thresholds: Bound = 12.0,
    factors: list[str] | None = None,
    fractions: Proper | list[Proper] | None = None,
) -> Holdout:
    """Trained on iff at most `c` factors are at or above their threshold; held out iff more are.

    `fractions`, if given, replace the thresholds: a factor of N values is above iff it has one of its last
    N − ⌊fraction · N⌋ values. Labels count in the order in which they were given.
    """
    axes = chosen_axes(space, factors)
    if fractions is None:
        bounds = per_axis(space, axes, thresholds, "thresholds")
    else:
        bounds = _bounds(space, axes, fractions if isinstance(fractions, list) else [fractions] * len(axes))
    above = between(space, axes, bounds, [math.inf] * len(axes))
    return Holdout(space, lambda values: above(values).sum(-1) > c)


def _bounds(space: FactorSpace, axes: list[int], fractions: list[float]) -> list[float]:
    """The first value above each fraction."""
    if len(fractions) != len(axes):
        raise InputError(
            f"'fractions' needs one number, or one for each of {len(axes)} factors. Got {fractions}.",
            "holdout.fractions",
        )
    places = [
        share_of_values(factor, name, fraction)
        for (name, factor), fraction in zip(chosen_factors(space, axes), fractions)
    ]
    return [
        float(factor.value(torch.tensor(float(place), dtype=torch.float64)))
        for (_, factor), place in zip(chosen_factors(space, axes), places)
    ]
