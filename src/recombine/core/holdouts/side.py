"""The box with a given share of each factor's values."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field

from recombine.core.factors import FactorSpace
from recombine.core.holdouts.bounds import between, chosen_axes, chosen_factors
from recombine.core.holdouts.conditions import share_of_values
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout


@HOLDOUTS.register("side")
def side(
    space: FactorSpace,
    fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    at: Literal["centre", "corner"] = "centre",
    factors: list[str] | None = None,
) -> Holdout:
    """A box of K = ⌊fraction · N⌋ values per factor, in the centre or in the upper corner of the grid.

    In the centre the box starts at position ⌊(N − K)/2⌋. Labels count in the order in which they were given.
    """
    axes = chosen_axes(space, factors)
    lows, highs = [], []
    for name, factor in chosen_factors(space, axes):
        count = share_of_values(factor, name, fraction)
        start = (factor.size - count) // 2 if at == "centre" else factor.size - count
        first, last = factor.value(torch.tensor([start, start + count - 1], dtype=torch.float64)).tolist()
        lows.append(first)
        highs.append(last)
    inside = between(space, axes, lows, highs)
    return Holdout(space, lambda values: inside(values).all(-1))
