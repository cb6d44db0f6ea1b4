"""Bounds of hold-outs: inclusive intervals of factor values, one for all factors or one per factor."""

from __future__ import annotations

import torch
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import Factor, FactorSpace
from recombine.core.holdouts.holdout import Rule
from recombine.core.registry import Finite

Bound = Finite | list[Finite]  # one for all factors, or one per factor


def chosen_axes(space: FactorSpace, factors: list[str] | None) -> list[int]:
    """The axes of the named factors; by default of all factors."""
    names = list(space.names) if factors is None else factors
    if not names or len(set(names)) != len(names):
        raise InputError(f"The factors of a hold-out must be distinct factors of {space}. Got {names}.")
    return [space.axis(name) for name in names]


def chosen_factors(space: FactorSpace, axes: list[int]) -> list[tuple[str, Factor]]:
    """The factors of axes with their names."""
    return [list(space.factors.items())[axis] for axis in axes]


def per_axis(space: FactorSpace, axes: list[int], bound: Bound, what: str) -> list[float]:
    """One bound per factor, each within the factor's range."""
    bounds = [float(b) for b in bound] if isinstance(bound, list) else [float(bound)] * len(axes)
    if len(bounds) != len(axes):
        raise InputError(f"{what!r} needs one number, or one for each of {len(axes)} factors. Got {bound}.")
    for (name, factor), value in zip(chosen_factors(space, axes), bounds):
        if factor.categorical:
            raise InputError(
                f"Factor {name!r} has labels ({factor.range}), which have no order, so {what}={value:g} cannot bound "
                f"it. Name the other factors (factors=[…]), or hold out cells by label: "
                f"cells=[{{{name}: {factor.labels[0]}, …}}]."
            )
        if not factor.takes(value):
            raise InputError(
                f"{what}={value:g} lies outside the range of factor {name!r}, whose values range {factor.range}. "
                "Choose a bound in this range or change the size of the factor."
            )
    return bounds


def between(space: FactorSpace, axes: list[int], lows: list[float], highs: list[float]) -> Rule:
    """values → (…, axis): whether each chosen factor lies in its inclusive interval; cyclic ones may wrap."""
    factors = list(space.factors.values())
    for axis, lo, hi in zip(axes, lows, highs):
        if lo > hi and factors[axis].kind != "cyclic":
            raise InputError(
                f"Bounds of factor {space.names[axis]!r} must have lo ≤ hi (only cyclic factors wrap around). Got "
                f"lo={lo:g}, hi={hi:g}."
            )

    def rule(values: Tensor) -> Tensor:
        columns = []
        for axis, lo, hi in zip(axes, lows, highs):
            factor = factors[axis]
            v, slack = values[..., axis], factor.slack
            if factor.kind == "cyclic":  # into the range, a value just below its start counting as its start
                v = torch.remainder(v - factor.low + slack, factor.extent) + factor.low - slack
            above, below = v >= lo - slack, v <= hi + slack
            columns.append(above & below if lo <= hi else above | below)
        return torch.stack(columns, dim=-1)

    return rule
