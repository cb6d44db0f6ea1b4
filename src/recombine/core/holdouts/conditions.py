"""Conditions on factor values, as configurations write them: a value, some values, or an inclusive range.

{"colour": "red", "size": [0.5, 0.7], "x": {"min": 14}}       # red, of one of two sizes, in the right half
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Bool, Int
from pydantic import Field
from torch import Tensor

from recombine.core.errors import InputError, Problem
from recombine.core.factors import Factor, FactorSpace
from recombine.core.holdouts.bounds import between, per_axis
from recombine.core.holdouts.holdout import Rule
from recombine.core.registry import Finite

Value = Finite | str  # a number or a label
Range = Annotated[dict[Literal["min", "max"], Finite], Field(min_length=1)]
Condition = Value | Annotated[list[Value], Field(min_length=1)] | Range
Conditions = Annotated[dict[str, Condition], Field(min_length=1)]  # all of them have to be met


def meeting(space: FactorSpace, conditions: Mapping[str, Any]) -> dict[int, Bool[Tensor, " value"]]:
    """For each axis with a condition, which of the factor's grid values meet it; all mistakes are raised together."""
    met: dict[int, Tensor] = {}
    problems: list[Problem] = []
    for name, condition in conditions.items():
        try:
            axis = space.axis(name)
            met[axis] = _meeting(space, name, condition)
        except InputError as error:
            problems.append(Problem(name, str(error)))
    if problems:
        raise InputError.join(problems)
    return met


def _meeting(space: FactorSpace, name: str, condition: Any) -> Bool[Tensor, " value"]:
    factor = space.factors[name]
    if isinstance(condition, Mapping):
        return _in_range(space, name, condition)
    given = condition if isinstance(condition, list | tuple) else [condition]
    met = torch.zeros(factor.size, dtype=torch.bool)
    try:
        met[[factor.index(value) for value in given]] = True
    except InputError as error:
        raise InputError(f"Factor {name!r}: {error}") from error
    return met


def _in_range(space: FactorSpace, name: str, bounds: Mapping[str, float]) -> Bool[Tensor, " value"]:
    """Which grid values lie between inclusive bounds; on a cyclic factor min > max wraps around."""
    axis, factor = space.axis(name), space.factors[name]
    low = bounds.get("min", factor.low)
    high = bounds.get("max", factor.high)
    lows, highs = per_axis(space, [axis], low, "min"), per_axis(space, [axis], high, "max")
    inside = between(space, [axis], lows, highs)
    values = torch.zeros(factor.size, space.n_factors, dtype=torch.float64)
    values[:, axis] = factor.value(torch.arange(factor.size, dtype=torch.float64))
    met = inside(values)[:, 0]
    if not bool(met.any()):
        raise InputError(f"Factor {name!r}: no value lies between {low:g} and {high:g}. Values: {factor.range}.")
    return met


def by_position(space: FactorSpace, held: Callable[[Int[Tensor, "*shape factor"]], Tensor]) -> Rule:
    """The rule of a function of grid positions. Values off the grid belong to their nearest cell."""
    return lambda values: held(space.coordinates(space.cells(values)))


def all_met(met: Mapping[int, Bool[Tensor, " value"]], positions: Int[Tensor, "*shape factor"]) -> Tensor:
    """Whether positions meet all conditions."""
    held = torch.ones(positions.shape[:-1], dtype=torch.bool, device=positions.device)
    for axis, allowed in met.items():
        held &= allowed.to(positions.device)[positions[..., axis]]
    return held


def share_of_values(factor: Factor, name: str, fraction: float) -> int:
    """⌊fraction · N⌋ of a factor's N values, computed exactly: 0.29 · 100 is 29. Raises if this is 0."""
    count = int(Fraction(repr(fraction)) * factor.size)
    if count == 0:
        raise InputError(
            f"fraction={fraction} of the {factor.size} values of factor {name!r} is less than one value. Use at least "
            f"{1 / factor.size:.3g}."
        )
    return count
