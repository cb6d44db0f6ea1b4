"""Recombination to range: one value never meets a range of another factor's values."""

from __future__ import annotations

from typing import Annotated

from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts.conditions import Conditions, all_met, by_position, meeting, share_of_values
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout


@HOLDOUTS.register("recombination_to_range")
def recombination_to_range(
    space: FactorSpace,
    value: Conditions,
    factor: str,
    fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    lower: bool = False,
) -> Holdout:
    """The cells with one value of a factor and a range of values of another.

    `value` is a condition such as {"shape": "square"}; the range consists of the last (or first) ⌊fraction · N⌋ of the
    N values of `factor`. Some pairs of values never occur together in training, the hard case (Montero et al. 2021). In
    that paper's dSprites split, squares are never in the right half: value={"shape": "square"}, factor="x", 122 880 of
    737 280 pictures.
    """
    met = meeting(space, value)
    axis, chosen = space.axis(factor), space.factors[factor]
    if axis in met:
        raise InputError(
            f"'value' and 'factor' must name different factors. Got {factor!r} for both.", "holdout.factor"
        )
    count = share_of_values(chosen, factor, fraction)

    def held(positions: Int[Tensor, "*shape factor"]) -> Tensor:
        column = positions[..., axis]
        return all_met(met, positions) & (column < count if lower else column >= chosen.size - count)

    return Holdout(space, by_position(space, held))
