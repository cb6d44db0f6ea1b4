"""Extrapolation: the values at one end of a factor."""

from __future__ import annotations

from typing import Annotated

from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.core.holdouts.conditions import by_position, share_of_values
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout


@HOLDOUTS.register("extrapolation")
def extrapolation(
    space: FactorSpace,
    factor: str,
    fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    lower: bool = False,
) -> Holdout:
    """The last ⌊fraction · N⌋ of the N values of a factor, or the first ones (Montero et al. 2021).

    Some values are never trained on, so a failure is not a failure to compose. This split is a control, and training
    requires allow_unseen.
    """
    axis, chosen = space.axis(factor), space.factors[factor]
    count = share_of_values(chosen, factor, fraction)

    def held(positions: Int[Tensor, "*shape factor"]) -> Tensor:
        column = positions[..., axis]
        return column < count if lower else column >= chosen.size - count

    return Holdout(space, by_position(space, held))
