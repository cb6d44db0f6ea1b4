"""The truth of a diagnosis, in all its forms, and without it."""

import math
import re

import numpy as np
import pandas
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import recombine as rc
from recombine.core.errors import InputError, Missing
from recombine.diagnostics.model import truth
from tests.diagnostics.small import CODE, HOLE, PARTS, SCENE, SPACE


def test_without_truth_what_needs_it_is_missing(model):
    found = rc.diagnose(model, SPACE, CODE, HOLE, progress=False, parts=["errors", "superposition", "complexity"])
    assert not found["errors"].computed
    assert found["errors"].state is Missing.NO_TRUTH
    assert found.missing["superposition"]["truth"].state is Missing.NO_TRUTH
    assert found.verdict.kind == "undecided"
    with pytest.raises(InputError, match="no target was given"):
        found.to_pandas("errors")
    with pytest.raises(InputError, match="missing"):
        found.plot("errors")
    assert "no target was given" in str(found)


def test_without_a_holdout(model):
    found = rc.diagnose(model, SPACE, CODE, target=SCENE, progress=False)
    assert not found["superposition"].computed
    assert not found["kernels"].computed
    assert found["geometry"].computed
    assert found.verdict.kind == "undecided"
    assert found.verdict.reason == "no hold-out"
    for part in ("errors", "geometry", "probes", "tuning", "embeddings"):
        assert isinstance(found.plot(part), Figure)


@pytest.mark.parametrize(
    "target",
    [
        SCENE,
        lambda values: SCENE(values).flatten(1),
        SCENE(SPACE.values(torch.arange(64))),
        SCENE(SPACE.values(torch.arange(64))).reshape(8, 8, 64).numpy(),
    ],
)
def test_all_forms_of_truth_are_one(model, target, diagnosis):
    found = rc.diagnose(model, SPACE, CODE, HOLE.mask, target=target, parts="errors", progress=False)
    assert found["errors"].rows[0]["mse"] == pytest.approx(diagnosis["errors"].rows[0]["mse"], rel=1e-6)


def test_a_truth_too_large_to_hold_gives_the_same_numbers(model, diagnosis, monkeypatch):
    monkeypatch.setattr(truth, "LARGE", 64 * 64 * 4 - 1)
    monkeypatch.setattr(truth, "CHUNK_BYTES", 7 * 64 * 4)
    most = []

    def target(values):
        most.append(len(values))
        return SCENE(values)

    parts = ["errors", "superposition", "complexity"]
    found = rc.diagnose(model, SPACE, CODE, HOLE, target=target, parts=parts, progress=False)
    assert max(most) == 7
    for part in parts:
        for name in diagnosis[part].tables:
            tables = [pandas.DataFrame(d[part].table(name)) for d in (diagnosis, found)]
            pandas.testing.assert_frame_equal(*tables, rtol=1e-9)
    assert found.verdict.kind == diagnosis.verdict.kind

    def hole(values):
        return torch.where((values == torch.tensor([5.0, 2.0])).all(1)[:, None], math.nan, SCENE(values).flatten(1))

    with pytest.raises(
        InputError, match=r"true outputs contain NaN or infinite numbers, first in cell 42 \(x=5, y=2\)"
    ):
        rc.diagnose(model, SPACE, CODE, HOLE, target=hole, parts=parts, progress=False)


@pytest.mark.parametrize("large", [False, True])
def test_functions_that_squeeze_are_targets(large, monkeypatch):
    if large:
        monkeypatch.setattr(truth, "LARGE", 0)
        monkeypatch.setattr(truth, "CHUNK_BYTES", 9 * 4)  # 64 = 7 · 9 + 1 cells
    model = nn.Sequential(nn.Linear(2, 70), nn.ReLU(), nn.Linear(70, 1))
    one = rc.holdouts.where(SPACE, lambda x, y: (x == 3) & (y == 4))  # a single cell
    plain, squeezed = (
        rc.diagnose(model, SPACE, None, one, target=target, parts=["errors", "superposition"], progress=False)
        for target in (lambda v: v[:, :1] * v[:, 1:], lambda v: (v[:, :1] * v[:, 1:]).squeeze())
    )
    assert squeezed["errors"].rows == plain["errors"].rows
    assert squeezed["superposition"].table("summary") == plain["superposition"].table("summary")


def test_errors_without_trained_cells_have_no_variance_to_compare_with(model):
    found = rc.diagnose(model, SPACE, CODE, np.ones((8, 8), dtype=bool), target=SCENE, parts="errors", progress=False)
    assert math.isnan(found["errors"].rows[0]["relative"])


@pytest.mark.parametrize(
    ("shape", "target"),
    [((), lambda v: v[:, :1] * v[:, 1:]), ((1,), lambda v: v[:, 0] * v[:, 1]), ((1, 1), None)],
)
def test_one_number_per_cell(shape, target):
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0), nn.Unflatten(0, (-1, *shape)))
    found = rc.diagnose(model, SPACE, None, HOLE, target=target, progress=False)
    assert found.facts["output_shape"] in ([1], [1, 1])
    assert found["errors"].computed == (target is not None)
    for part in PARTS:
        if found[part].computed:
            assert isinstance(found.plot(part), Figure)


def test_numbers_of_a_classifier():
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 5))
    torch.manual_seed(0)
    nn.init.normal_(model[0].weight)
    found = rc.diagnose(lambda code: model(code - 3).argmax(1), SPACE, None, HOLE, progress=False)
    assert found["probes"].computed
    assert found["geometry"].state is Missing.NOT_DIFFERENTIABLE


def test_a_truth_that_differs_in_axes_of_length_one(model, diagnosis):
    image = nn.Sequential(model, nn.Unflatten(1, (1, 8, 8)))
    for target in (SCENE, lambda values: SCENE(values).flatten(1), lambda values: SCENE(values)[:, None]):
        found = rc.diagnose(image, SPACE, CODE, HOLE, target=target, parts="errors", progress=False)
        assert found["errors"].rows[0]["mse"] == pytest.approx(diagnosis["errors"].rows[0]["mse"], rel=1e-6)
        assert [n for n in found.facts["output_shape"] if n > 1] == [8, 8]


def test_a_truth_without_derivative_is_named(model):
    def drawn(values):
        return torch.stack([SCENE(torch.tensor([one]))[0] for one in values.tolist()])

    found = rc.diagnose(model, SPACE, CODE, HOLE, target=drawn, parts="geometry", progress=False)
    assert found["geometry"].computed
    absent = found["geometry"].missing["warp, exact"]
    assert absent.state is Missing.NOT_DIFFERENTIABLE
    assert "target function has no derivative" in absent.reason
    assert "model" not in absent.reason


def test_scales_that_differ_are_noted_with_both_ranges():
    def half(values):
        return (SCENE(values) + 1) / 2

    found = rc.diagnose(half, SPACE, None, HOLE, target=SCENE, parts="superposition", progress=False)
    assert found.verdict.reason == "different scales"
    assert any(re.search(r"truth ranges from \S+ to 1, the outputs from 0.5 to 1\.", note) for note in found.notes)
