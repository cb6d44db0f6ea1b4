"""The comb: every k-th diagonal."""

from __future__ import annotations

from typing import Annotated

from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts.bounds import chosen_axes
from recombine.core.holdouts.conditions import by_position
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout


@HOLDOUTS.register("comb")
def comb(
    space: FactorSpace,
    every: Annotated[int, Field(ge=2, le=2**40)] = 5,
    offset: Annotated[int, Field(ge=0)] = 0,
    factors: list[str] | None = None,
) -> Holdout:
    """Every k-th diagonal: held out iff the sum of the grid positions modulo `every` equals `offset`.

    All held-out cells have trained neighbours, so every pixel of a moving object is lit in training: a failure here
    is a failure to compose, not to extrapolate. N = 28, every fifth: 156 of 784 cells. Labels count in
    the order in which they were given.
    """
    axes = chosen_axes(space, factors)
    if offset >= every:
        raise InputError(f"offset must be less than every={every}. Got {offset}.")

    def held(positions: Int[Tensor, "*shape factor"]) -> Tensor:
        return positions[..., axes].sum(-1) % every == offset

    return Holdout(space, by_position(space, held))
