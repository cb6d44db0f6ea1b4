"""The cross."""

from __future__ import annotations

import torch

from recombine.core.errors import InputError
from recombine.core.factors import Factor, FactorSpace
from recombine.core.holdouts.bounds import Bound, between, chosen_axes, chosen_factors, per_axis
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout
from recombine.core.registry import Count


@HOLDOUTS.register("cross")
def cross(
    space: FactorSpace,
    lo: Bound = 12.0,
    hi: Bound = 15.0,
    margin: Count = 3,
    factors: list[str] | None = None,
) -> Holdout:
    """A cross: all factors but at most one lie in [lo, hi]; the arms stop `margin` cells before the border.

    The margin keeps every single value in training.
    """
    axes = chosen_axes(space, factors)
    chosen = chosen_factors(space, axes)
    for name, factor in chosen:
        most = (factor.size - 1) // 2
        if most == 0:
            raise InputError(f"A cross requires factors with at least 3 values. Got {factor.size} for factor {name!r}.")
        if margin > most:
            raise InputError(
                f"margin={margin} leaves no values of factor {name!r} between its margins. Its {factor.size} values "
                f"allow at most margin={most}."
            )
    in_bar = between(space, axes, per_axis(space, axes, lo, "lo"), per_axis(space, axes, hi, "hi"))
    ends = [_ends(factor, margin) for _, factor in chosen]
    reach = between(space, axes, [low for low, _ in ends], [high for _, high in ends])
    return Holdout(space, lambda values: (in_bar(values).sum(-1) >= max(1, len(axes) - 1)) & reach(values).all(-1))


def _ends(factor: Factor, margin: int) -> tuple[float, float]:
    """The values `margin` cells inside the border."""
    if factor.listed:
        low, high = factor.value(torch.tensor([margin, factor.size - 1 - margin], dtype=torch.float64)).tolist()
        return low, high
    return factor.low + margin * factor.step, factor.high - margin * factor.step
