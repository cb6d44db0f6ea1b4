"""Subsampling: the values of a factor that are kept, recorded as their positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int

from recombine.core.errors import InputError, Problem
from recombine.core.factors import Factor, FactorSpace, categorical, cyclic, discrete
from recombine.core.registry import nearest

Keep = Mapping[str, Any]
FORMS = 'positions such as [0, 2, 4], a slice such as "0:40:4", or labels such as ["square", "heart"]'


def kept_positions(keep: Keep, space: FactorSpace) -> dict[str, list[int]]:
    """Positions of the values to keep, by factor, increasing; factors that keep all their values are omitted.

    Args:
        keep: Factor → positions 0 … size−1, a slice as text, or labels.
        space: The factors of the whole data set.
    """
    found: dict[str, list[int]] = {}
    problems: list[Problem] = []
    for name, wanted in keep.items():
        try:
            if name not in space.factors:
                close = nearest(str(name), space.names)
                raise InputError(f"there is no such factor{close}. Factors: {', '.join(space.names)}.")
            places = _positions(wanted, space.factors[name])
            if len(places) < space.factors[name].size:
                found[name] = places
        except InputError as error:
            problems.append(Problem(f"keep.{name}", f"Cannot keep {wanted!r} of {name!r}: {error}"))
    if problems:
        raise InputError.join(problems)
    return found


def _positions(wanted: Any, factor: Factor) -> list[int]:
    if isinstance(wanted, str) and ":" in wanted and wanted not in factor.labels:
        try:
            parts = [int(part) if part.strip() else None for part in wanted.split(":")]
            places = list(range(factor.size))[slice(*parts)]
        except (ValueError, TypeError):
            raise InputError(f"expected {FORMS}.") from None
    else:
        listed = wanted if isinstance(wanted, list | tuple) else [wanted]
        places = [_position(entry, factor) for entry in listed]
    if not places:
        raise InputError(f"none of its {factor.size} values remains.")
    return sorted(set(places))


def _position(entry: Any, factor: Factor) -> int:
    if isinstance(entry, str):
        return factor.index(entry)
    if isinstance(entry, bool) or not isinstance(entry, int):
        raise InputError(f"expected {FORMS}.")
    if not 0 <= entry < factor.size:
        raise InputError(f"its values are numbered from 0 to {factor.size - 1}.")
    return entry


def kept_factor(factor: Factor, places: list[int]) -> Factor:
    """The factor with some of its values. A cyclic factor stays cyclic if they are evenly spaced around the circle."""
    if factor.categories is not None:
        return categorical([factor.categories[place] for place in places])
    gaps = np.diff([*places, places[0] + factor.size])
    if factor.kind == "cyclic" and len(set(gaps.tolist())) == 1:
        return cyclic(factor.extent, len(places), low=factor.low + places[0] * factor.step)
    values = factor.listed or [factor.low + factor.step * i for i in range(factor.size)]
    return discrete([float(values[place]) for place in places])


def chosen_pictures(
    positions: Int[np.ndarray, "picture factor"], space: FactorSpace, kept: Mapping[str, list[int]]
) -> Int[np.ndarray, " chosen"]:
    """Indices of the pictures whose values are all kept."""
    inside = np.ones(len(positions), dtype=bool)
    for name, places in kept.items():
        inside &= np.isin(positions[:, space.axis(name)], places)
    if not inside.any():
        raise InputError(f"No picture has the selected values ({', '.join(kept)}). Keep more values.")
    return np.flatnonzero(inside)
