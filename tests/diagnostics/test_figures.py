"""Figures show colours as colours, row 0 where the scene has it, labels as labels, and hatch what does not exist."""

import numpy as np
import pytest
import torch
from matplotlib.collections import PolyCollection
from torch import nn

import recombine as rc
from recombine.core.images import as_pictures
from tests.colour import ColouredBump, coloured_task

TASK = coloured_task()
PARTS = ["outputs", "errors", "superposition", "draws", "geometry", "embeddings"]


class Noisy(nn.Module):
    """The truth, turned by one layer that keeps it, with noise in the brightness."""

    def __init__(self):
        super().__init__()
        self.keep = nn.Identity()

    def forward(self, noise, code):
        parts = code.split([5, 5, 3], -1)
        values = torch.stack([(part @ torch.arange(float(part.shape[-1])).to(part)) for part in parts], -1)
        return self.keep(TASK.targets(values) * (1 + 0.1 * noise[:, :1, None, None]))


@pytest.fixture(scope="module")
def diagnosis():
    model = rc.adapt(Noisy(), noise=1)
    known = (TASK.space, TASK.inputs, TASK.holdout)
    return rc.diagnose(model, *known, target=TASK.scene, draws=3, parts=PARTS, progress=False)


def pictures(figure) -> list:
    return [ax for ax in figure.axes if ax.images and ax.images[0].get_array().shape == (12, 12, 3)]


@pytest.mark.parametrize("part", ["outputs", "superposition", "draws"])
def test_pictures_are_coloured_upright_and_labelled(diagnosis, part):
    shown = pictures(diagnosis.plot(part))
    assert {ax.images[0].origin for ax in shown} == {"upper"}
    named = [ax for ax in shown if "colour=green" in ax.get_title().replace("\n", " ")]
    assert named
    for ax in named:
        places = dict(word.split("=") for word in ax.get_title().replace("\n", " ").split(", "))
        truth = ColouredBump(TASK.space)(torch.tensor([float(places["x"]), float(places["y"]), 1.0]))
        np.testing.assert_allclose(ax.images[0].get_array(), as_pictures(truth[None].numpy())[0], atol=0.01)


@pytest.mark.parametrize("part", ["superposition", "draws"])
def test_grey_pictures_are_where_the_scene_has_row_0(part):
    space = rc.FactorSpace(x=4, y=4)
    values = space.values(torch.arange(16))
    hole = rc.holdouts.centre(space, 1, 3)
    scene = rc.Task.from_arrays(rc.scenes.Bump(space)(values), values, factors=["x", "y"], holdout=hole).scene
    for target, origin in ((scene, "upper"), (rc.scenes.Bump(space), "lower")):
        found = rc.diagnose(
            lambda code: scene(code) + 1e-3 * torch.randn(()), space, None, hole, target=target, draws=2,
            parts=["outputs", part], progress=False,
        )  # fmt: skip
        shown = [ax for ax in found.plot(part).axes if ax.images and ax.get_ylabel() == "truth"]
        assert [ax.images[0].origin for ax in shown] == [origin]


@pytest.mark.parametrize("part", ["errors", "geometry", "draws"])
def test_maps_hatch_cells_that_do_not_exist(part):
    space = rc.FactorSpace(colour=["red", "green", "blue"], x=4)
    held = rc.holdouts.mask(space, np.eye(3, 4, dtype=bool)).within(np.arange(12) < 11)
    options = {"geometry": "finite difference", "parts": [part], "progress": False}

    def noisy(values):
        return values.cos() + 0.1 * torch.randn(())

    found = rc.diagnose(noisy, space, None, held, target=torch.cos, draws=2, **options)
    maps = [ax for ax in found.plot(part).axes if ax.get_xlabel() == "colour" and ax.images]
    assert maps
    for ax in maps:
        [hatched] = [c for c in ax.collections if isinstance(c, PolyCollection) and c.get_hatch()]
        [path] = hatched.get_paths()
        assert path.vertices[:4].mean(0).tolist() == [2, 3]


def test_embeddings_name_labels(diagnosis):
    [bar] = [ax for ax in diagnosis.plot("embeddings").axes if ax.get_ylabel() == "colour"]
    assert [text.get_text() for text in bar.get_yticklabels()] == ["red", "green", "blue"]


def test_the_spread_over_draws_starts_at_zero(diagnosis):
    [plane] = [ax for ax in diagnosis.plot("draws").axes if ax.get_xlabel() == "x" and ax.images]
    assert plane.images[0].get_clim()[0] == 0
