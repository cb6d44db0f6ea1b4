"""The verdict, on models whose answer is known by construction and on the numbers at its thresholds."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import recombine as rc
from recombine.diagnostics.verdict import THRESHOLDS, Evidence, Verdict, judge

SPACE = rc.FactorSpace(x=12, y=12)
HOLE = rc.holdouts.centre(SPACE, 4, 8)
SCENE = rc.scenes.Bump(SPACE)
CODE = rc.encodings.Bump(SPACE)
PARTS = ("errors", "superposition", "kernels")
CELLS = torch.arange(len(SPACE))


class Table(nn.Module):
    """Answers every combination from a table of outputs; the code is the pair of factor values."""

    def __init__(self, outputs):
        super().__init__()
        self.register_buffer("outputs", outputs)

    def forward(self, values):
        return self.outputs[SPACE.cells(values)]


class Product(nn.Module):
    """A vertical times a horizontal stripe, each made from its own factor alone."""

    def forward(self, code):
        x, y = code[:, :12], code[:, 12:]
        return y[:, :, None] * x[:, None, :]


def truth():
    return SCENE(SPACE.values(CELLS))


def remembered(how="mean"):
    """The truth where trained; elsewhere the mean, or the sum, of the trained images that share x or y."""
    images, held = truth(), torch.from_numpy(HOLE.mask.ravel())
    where = SPACE.coordinates(CELLS)
    for cell in HOLE.ood_cells:
        sharing = (where == where[cell]).any(1) & ~held
        images[cell] = truth()[sharing].mean(0) if how == "mean" else truth()[sharing].sum(0) / 5
    return images


def verdict(model, encode=None, **options):
    return rc.diagnose(model, SPACE, encode, HOLE, parts=PARTS, progress=False, **options).verdict


def test_a_product_of_factors_composes():
    found = verdict(Product(), CODE, target=SCENE)
    assert found.kind == "composes"
    assert found.evidence.ood_error < 1e-6
    assert found.evidence.cosine_truth == pytest.approx(1)


@pytest.mark.parametrize("how", ["mean", "sum"])
def test_a_sum_of_memorized_images_superposes(how):
    found = verdict(Table(remembered(how)), target=SCENE)
    assert found.kind == "superposes"
    assert found.evidence.superposition > 0.7
    assert found.evidence.id_error == 0
    assert "sums of remembered outputs" in str(found)


def test_without_truth_a_sum_of_memorized_images_still_superposes():
    found = verdict(Table(remembered()))
    assert found.kind == "superposes"
    assert math.isnan(found.evidence.ood_error)
    assert found.evidence.superposition > found.evidence.trained + 0.25


def test_without_truth_a_right_model_cannot_be_told():
    found = verdict(Product(), CODE)
    assert found.kind == "cannot tell"
    assert "the truth" in found.explanation


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("code", [rc.encodings.Bump, rc.encodings.Ramp, rc.encodings.OneHot])
@pytest.mark.parametrize("kind", [rc.decoders.MLP, rc.decoders.CNN])
def test_an_untrained_network_does_neither(seed, code, kind):
    encode = code(SPACE)
    model = kind(rc.Task(SCENE, encode, HOLE), depth=2, width=16).initialize(seed)
    assert verdict(model, encode, target=SCENE).kind == "fails otherwise"
    assert verdict(model, encode).kind == "cannot tell"


@pytest.mark.parametrize("wrong", ["noise", "blank", "elsewhere"])
def test_other_failures_are_no_superpositions(wrong):
    images, held = truth(), torch.from_numpy(HOLE.mask.ravel())
    random = torch.Generator().manual_seed(0)
    images[held] = {
        "noise": torch.rand(int(held.sum()), 12, 12, generator=random),
        "blank": truth()[~held].mean(0) + 1e-3 * torch.rand(int(held.sum()), 12, 12, generator=random),
        "elsewhere": truth()[held].flip(1),
    }[wrong]
    assert verdict(Table(images), target=SCENE).kind in ("fails otherwise", "cannot tell")
    assert verdict(Table(images), target=SCENE).kind == "fails otherwise" or wrong == "elsewhere"
    assert verdict(Table(images)).kind == "cannot tell"


@pytest.mark.parametrize("sigma", [1.0, 1.5, 2.0, 2.5, 3.0])
@pytest.mark.parametrize("hole", [rc.holdouts.centre(SPACE, 3, 8), rc.holdouts.corner(SPACE, 6)])
def test_wide_bumps_are_told_apart_too(sigma, hole):
    """Where the truth itself is nearly a sum of its relatives, an exact sum leaves still less unexplained."""
    scene = rc.scenes.Bump(SPACE, sigma=sigma)
    images, where, held = scene(SPACE.values(CELLS)), SPACE.coordinates(CELLS), torch.from_numpy(hole.mask.ravel())
    sums = images.clone()
    for cell in hole.ood_cells:
        sums[cell] = images[~held][(where[~held] == where[cell]).sum(1) == 1].mean(0)
    parts = ["errors", "superposition"]
    found = {
        name: rc.diagnose(Table(outputs), SPACE, None, hole, target=scene, parts=parts, progress=False).verdict.kind
        for name, outputs in {"right": images, "sums": sums, "faint": 0.3 * images}.items()
    }
    assert found == {"right": "composes", "sums": "superposes", "faint": found["faint"]}
    assert found["faint"] in ("fails otherwise", "cannot tell")


def test_the_truth_decides_where_nothing_remembered_can_be_compared():
    space = rc.FactorSpace(x=5, y=5, z=5)
    steps = torch.arange(5.0)

    def product(values):
        return torch.stack([torch.exp(-((steps - values[:, k : k + 1]) ** 2) / 2) for k in range(3)]).prod(0)

    axes_only = (space.coordinates(torch.arange(125)) > 0).sum(1) > 1
    options = {"target": product, "parts": PARTS[:2], "progress": False}
    found = rc.diagnose(product, space, None, axes_only.reshape(5, 5, 5), **options).verdict
    assert found.kind == "composes"
    assert math.isnan(found.evidence.superposition)
    blank = truth()
    blank[HOLE.ood_cells] = 0
    found = verdict(Table(1 - blank), target=rc.scenes.Bump(SPACE, inverted=True))
    assert found.kind == "fails otherwise"
    blank = 1 - blank
    blank[HOLE.ood_cells] = 0
    found = verdict(Table(blank), target=rc.scenes.Bump(SPACE, inverted=True))
    assert found.kind == "fails otherwise"
    assert "blank" in found.explanation
    assert found.evidence.blank == 1


def test_a_target_counts_also_where_errors_were_not_asked_for():
    options = {"target": SCENE, "parts": "superposition", "progress": False}
    assert rc.diagnose(Product(), SPACE, CODE, HOLE, **options).verdict.kind == "composes"


def test_a_bright_background_changes_nothing():
    inverted = rc.scenes.Bump(SPACE, inverted=True)
    assert verdict(Table(1 - remembered()), target=inverted).kind == "superposes"
    assert verdict(Table(1 - truth()), target=inverted).kind == "composes"


def test_an_additive_truth_is_composed_by_adding():
    stripes = rc.scenes.Stripe(SPACE, factor="x")(SPACE.values(CELLS))
    stripes = stripes + rc.scenes.Stripe(SPACE, factor="y")(SPACE.values(CELLS))
    assert verdict(Table(stripes), target=stripes).kind == "composes"
    assert verdict(Table(stripes)).kind == "cannot tell"


def test_a_trained_network_is_judged_by_its_numbers():
    task = rc.Task(SCENE, CODE, HOLE)
    run = rc.train(rc.decoders.MLP(task, depth=3, width=64), task, seed=0, training=rc.recipe("recommended", steps=400))
    found = verdict(run.model, CODE, target=SCENE)
    e = found.evidence
    assert e.id_error < 0.5 < e.ood_error
    assert found.kind == "superposes"
    assert e.superposition > max(0.5, e.unrelated + 0.25, e.truth_superposition + 0.25)


LEARNT = Evidence(100, 0.1, 0.05, 0.1, 0.01, 0.9, 0.1, 0.02)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "fails otherwise"),
        ({"superposition": 0.5}, "superposes"),
        ({"superposition": 0.5, "truth_superposition": 0.3}, "fails otherwise"),
        ({"superposition": 0.5, "unrelated": 0.3}, "fails otherwise"),
        ({"superposition": 0.9, "id_error": 0.6}, "fails otherwise"),
        ({"ood_error": 0.1, "cosine_truth": 0.95}, "composes"),
        ({"ood_error": 0.1, "cosine_truth": 0.95, "superposition": 0.99, "truth_superposition": 0.99}, "composes"),
        ({"ood_error": 0.1, "cosine_truth": -0.99}, "cannot tell"),
        ({"ood_error": 0.3}, "cannot tell"),
        ({"cosine_truth": 0.8}, "cannot tell"),
        ({"ood_error": 0.05, "cosine_truth": 0.99, "id_error": 0.7}, "cannot tell"),
        ({"ood_cells": 4}, "cannot tell"),
        ({"superposition": math.nan}, "fails otherwise"),
        ({"superposition": math.nan, "blank": 1.0}, "fails otherwise"),
        ({"superposition": math.nan, "ood_error": 0.0, "cosine_truth": 1.0}, "composes"),
        ({"superposition": math.nan, "ood_error": math.nan}, "cannot tell"),
        ({"superposition": 0.96, "truth_superposition": 0.8}, "superposes"),  # a fifth of what right ones leave
        ({"superposition": 0.94, "truth_superposition": 0.8}, "cannot tell"),  # 0.25 more cannot be reached
        ({"superposition": 0.96, "truth_superposition": 0.8, "ood_error": 0.4}, "cannot tell"),  # perhaps a blur
        ({"superposition": 1.0, "truth_superposition": 0.995}, "cannot tell"),
        ({"superposition": 0.6, "truth_superposition": 0.8}, "fails otherwise"),  # less of a sum than right ones
        ({"id_error": math.nan, "ood_error": 0.0, "cosine_truth": 1.0}, "cannot tell"),
        ({"id_error": math.nan, "superposition": 1.0}, "cannot tell"),
    ],
)
def test_thresholds(changes, kind):
    found = judge(replace(LEARNT, **changes))
    assert found.kind == kind
    assert found.thresholds == THRESHOLDS
    assert "nan" not in found.explanation
    assert not ("not mostly sums" in found.explanation and found.evidence.superposition >= 0.5)


def test_without_truth_agreement_can_refuse():
    sums = Evidence(100, superposition=0.9, trained=0.1, agreement=0.5, agreement_p=0.001)
    assert judge(sums).kind == "superposes"
    assert judge(replace(sums, agreement=0.0, agreement_p=0.4)).kind == "cannot tell"
    assert judge(replace(sums, trained=0.8)).kind == "cannot tell"


def test_json_and_back():
    found = judge(replace(LEARNT, agreement=math.nan))
    again = Verdict.from_json(found.to_json())
    assert again.to_json() == found.to_json()
    assert math.isnan(again.evidence.agreement)
