"""The contract that every hold-out keeps."""

import itertools
import json

import numpy as np
import pytest
import torch

from recombine.core.factors import FactorSpace
from recombine.core.holdouts import (
    HOLDOUTS,
    Holdout,
    centre,
)
from tests.core.holdouts.spaces import SPACES

# Every kind is under contract by being registered. Those whose defaults do not fit SPACES have settings here.
SETTINGS: dict[str, dict] = {
    "centre": {"lo": 3.0, "hi": 10.0},
    "corner": {"threshold": 7.0, "lower": True},
    "cross": {"lo": 4.0, "hi": 8.0, "margin": 2},
    "random": {"fraction": 0.3, "seed": 1},
    "side": {"fraction": 0.4, "at": "corner"},
    "orthotopic": {"c": 0, "thresholds": 9.0},
    "gap": {"factor": "x", "lo": 3.0, "hi": 5.0, "inclusive": False},
    "cells": {"cells": [{"x": 3}, {"x": {"min": 6, "max": 8}}, {"x": [1, "2"]}]},
    "extrapolation": {"factor": "x", "fraction": 0.3},
    "recombination_to_range": {"value": {"x": 3}},
    "recombination_to_element": {},
    "connected": {"fraction": 0.3},
    "montero": {"data": "mpi3d", "split": "recombination_to_range"},
    "any_of": {"parts": [{"kind": "centre", "lo": 4, "hi": 8, "factors": ["x"]},
                         {"kind": "gap", "factor": "x", "lo": 2, "hi": 3}]},
    "all_of": {"parts": [{"kind": "comb"}, {"kind": "gap", "factor": "x", "lo": 2, "hi": 8}]},
    "all_but": {"part": {"kind": "random"}},
}  # fmt: skip
BOUNDED = ("centre", "corner", "cross", "orthotopic")  # take numbers of all factors that have an order
FEWEST = {"diagonal": 2, "levels": 2, "connected": 2, "disconnected": 2, "recombination_to_range": 2,
          "recombination_to_element": 3}  # fmt: skip
OWN_SPACES = {"montero": {"mpi3d": FactorSpace(object_shape=list("abcdef"), horizontal_axis=40, z=2)}}
IN_A_TASK = {"data"}  # known only with a scene: tests/core/test_images_scene.py
CASES = {
    f"{kind}-{name}": (kind, space)
    for kind in HOLDOUTS.components
    if kind not in IN_A_TASK
    for name, space in OWN_SPACES.get(kind, SPACES).items()
    if space.n_factors >= FEWEST.get(kind, 1)
}
cases = pytest.mark.parametrize(("kind", "space"), CASES.values(), ids=CASES)


def build(kind: str, space: FactorSpace) -> Holdout:
    settings = dict(SETTINGS.get(kind, {}))
    if kind == "mask":
        settings = {"lengths": [0, 5, len(space) - 12, 7]}
    if kind == "recombination_to_range":
        settings["factor"] = space.names[-1]
    if kind == "recombination_to_element":
        settings["element"] = {name: list(factor.labels[:2]) for name, factor in space.factors.items()}
    if kind in BOUNDED:
        settings["factors"] = list(space.differentiable)
    return HOLDOUTS.build({"kind": kind, **settings}, space)


@cases
def test_id_and_ood_partition_the_grid(kind, space):
    held = build(kind, space)
    assert held.mask.shape == space.shape
    assert held.n_id + held.n_ood == len(space)
    assert held.n_ood == len(held.ood_cells) == held.mask.sum() > 0
    assert held.n_id == len(held.id_cells) > 0
    assert sorted(held.id_cells.tolist() + held.ood_cells.tolist()) == list(range(len(space)))
    assert bool(held.contains(space.values(held.ood_cells)).all())
    assert not bool(held.contains(space.values(held.id_cells)).any())


@cases
def test_configuration_rebuilds_the_same_holdout(kind, space):
    held = build(kind, space)
    again = HOLDOUTS.build(json.loads(json.dumps(held.config)), FactorSpace.from_config(space.to_config()))
    assert again.config == held.config
    assert again.hash == held.hash
    assert np.array_equal(again.mask, held.mask)


@cases
def test_contains_takes_any_leading_shape_and_type(kind, space):
    held = build(kind, space)
    cells = torch.arange(len(space))[: len(space) // 2 * 2].reshape(2, -1)
    expected = torch.from_numpy(held.mask.ravel())[cells]
    assert torch.equal(held.contains(space.values(cells)), expected)
    assert torch.equal(held.contains(space.values(cells).double()), expected)
    whole = space.values(cells).int()
    assert torch.equal(held.contains(whole), held.contains(whole.float()))


@cases
def test_repr_counts_and_names(kind, space):
    held = build(kind, space)
    assert f"{held.n_ood} of {len(space)} cells held out ({100 * held.n_ood / len(space):.1f} %)" in repr(held)
    assert repr(space) in repr(held)
    sign = {"any_of": " | ", "all_of": " & ", "all_but": "~random(", "mask": "mask"}.get(kind, f"{kind}(")
    assert sign in repr(held)


@cases
def test_picture_has_a_sign_per_cell(kind, space):
    held = build(kind, space)
    rows = held.picture().split("\n")
    columns, lines = (*space.shape, 1)[:2]
    assert [len(row) for row in rows] == [columns] * lines
    for i, j in itertools.product(range(columns), range(lines)):
        share = held.mask[i].mean() if space.n_factors == 1 else held.mask[i, j].mean()
        assert rows[lines - 1 - j][i] == {0.0: "·", 1.0: "█"}.get(float(share), "░")


@cases
def test_coverage_by_brute_force(kind, space):
    held = build(kind, space)
    trained = space.values(held.id_cells)
    unseen = {
        name: [float(v) for v in factor.grid() if not (trained[:, axis] == v).any()]
        for axis, (name, factor) in enumerate(space.factors.items())
    }
    coverage = held.coverage()
    assert coverage.unseen == unseen
    assert coverage.complete == (not any(unseen.values()))


def test_picture_of_a_small_centre():
    assert centre(FactorSpace(x=5, y=4), 1, [3, 1], factors=["x", "y"]).picture() == "·····\n·····\n·███·\n·····"
