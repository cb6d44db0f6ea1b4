"""The splits of a comparison: names, and the hold-out that each one means on a scene."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import mask
from recombine.core.scenes import Scene
from recombine.studies.compare.slots import two_factors

DELTA = 0.2  # half the width of the diagonal support, as a share of the factors' range
ELEMENT_FACTORS = 3  # with a condition each in the split "element"


def upper_half(space: FactorSpace, name: str) -> list[Any]:
    """The upper half of a factor's grid values or labels."""
    factor = space.factors[name]
    values = list(factor.labels) if factor.categorical else [float(value) for value in factor.grid()]
    return values[len(values) // 2 :]


def _range(scene: Scene) -> dict[str, Any]:
    """Recombination to range: the upper halves of two factors never occur together in training."""
    halves = {name: upper_half(scene.space, name) for name in two_factors(scene)}
    return {"kind": "cells", "cells": [halves]}


def _diagonal(scene: Scene) -> dict[str, Any]:
    """Diagonal support: two factors are trained on only where their positions are alike (δ = 0.2 of their range,
    or the difference of their sizes if that is larger)."""
    names = two_factors(scene)
    sizes = [scene.space.factors[name].size for name in names]
    delta = max(1.0, DELTA * (max(sizes) - 1), max(sizes) - min(sizes))  # every value is trained on
    return {"kind": "diagonal", "held": "rest", "delta": delta, "factors": list(names)}


def _element(scene: Scene) -> dict[str, Any]:
    """Recombination to element: the upper halves of three factors; all pairs of values occur in training."""
    halves = {name: upper_half(scene.space, name) for name in scene.space.names[:ELEMENT_FACTORS]}
    return {"kind": "recombination_to_element", "element": halves}


def _data(scene: Scene) -> dict[str, Any]:
    """The cells that occur only in the test part of a data set, as a mask, so that trials can hold out more cells."""
    if scene.test_cells is None:
        raise InputError("The split data requires a data set with a train/test split. This scene has none.", "splits")
    return mask(scene.space, scene.test_cells).config


SPLITS: dict[str, Callable[[Scene], dict[str, Any]]] = {
    "random": lambda scene: {"kind": "random", "fraction": 0.3, "seed": 0},
    "comb": lambda scene: {"kind": "comb"},
    "diagonal": _diagonal,
    "connected": lambda scene: {"kind": "connected"},
    "range": _range,
    # Those below belong to no suite:
    "element": _element,
    "orthotopic": lambda scene: {"kind": "orthotopic", "c": 1, "fractions": 0.5},
    "levels": lambda scene: {"kind": "levels", "changes": 1},
    "disconnected": lambda scene: {"kind": "disconnected"},
    "data": _data,
}
