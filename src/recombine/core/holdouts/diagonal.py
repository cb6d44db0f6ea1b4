"""The band around the diagonal."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Int
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts.bounds import chosen_axes
from recombine.core.holdouts.conditions import by_position
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout
from recombine.core.registry import NonNegative


@HOLDOUTS.register("diagonal")
def diagonal(
    space: FactorSpace,
    delta: NonNegative = 1.0,
    held: Literal["band", "rest"] = "band",
    factors: list[str] | None = None,
) -> Holdout:
    """The cells whose grid positions differ by at most `delta` between any two factors, or all others.

    With held="rest" only the band is trained on: the diagonal support of Wiedemer et al. 2023, whose δ is a share of
    the factors' range (delta = δ · (N − 1)). N = 28, delta = 1: the band has 82 of 784 cells.
    """
    axes = chosen_axes(space, factors)
    if len(axes) < 2:
        raise InputError(
            f"A diagonal requires at least two factors. Got {', '.join(space.names[axis] for axis in axes)}."
        )

    def rule(positions: Int[Tensor, "*shape factor"]) -> Tensor:
        chosen = positions[..., axes]
        band = chosen.amax(-1) - chosen.amin(-1) <= delta
        return band if held == "band" else ~band

    return Holdout(space, by_position(space, rule))
