"""Where a data set has several pictures of a cell, the truth may be the one that is nearest to the output."""

import numpy as np
import pytest
import torch
from torch import nn

import recombine as rc

LABELS = np.repeat([(x, y) for x in range(4) for y in range(4)], 2, axis=0)
PICTURES = np.zeros((32, 6, 6), dtype=np.float32)
for i, (x, y) in enumerate(LABELS):
    PICTURES[i, x : x + 3, y : y + 3] = 1 if i % 2 else 0.5  # a bright and a dark picture of every cell


class Bright(nn.Module):
    """Draws the bright picture of every cell, or for noise above 0 the dark one."""

    def forward(self, code, noise=None):
        cell = 4 * code[:, :4].argmax(-1) + code[:, 4:].argmax(-1)
        bright = torch.from_numpy(PICTURES[1::2])[cell]
        return bright if noise is None else torch.where(noise[:, :1, None] > 0, bright / 2, bright)


def diagnosed(several, model=None, **given):
    task = rc.Task.from_arrays(
        PICTURES,
        LABELS,
        factors=["x", "y"],
        several=several,
        holdout=[{"x": x, "y": y} for x in (1, 2) for y in (0, 1, 2)],
    )
    return rc.diagnose(
        Bright() if model is None else model, task.space, task.inputs, task.holdout, target=task.scene,
        parts=["outputs", "errors", "superposition"], progress=False, **given,
    )  # fmt: skip


def test_the_nearest_picture_is_the_truth():
    nearest, mean = diagnosed("nearest"), diagnosed("mean")
    assert nearest["errors"].rows[0]["mse"] == 0
    np.testing.assert_array_equal(nearest["outputs"].arrays["truth"], PICTURES[1::2])
    np.testing.assert_array_equal(mean["outputs"].arrays["truth"], (PICTURES[::2] + PICTURES[1::2]) / 2)
    assert mean["errors"].rows[0]["mse"] > 0
    assert nearest.facts["several"] == "nearest"
    assert "several" not in mean.facts
    assert nearest.verdict.kind == "composes"


def test_every_draw_has_its_own_nearest_pictures():
    model = rc.adapt(Bright(), noise=1, inputs=("code", "noise"))
    found = diagnosed("nearest", model, draws=6)
    signs = {bool(model.draw(n).noise(1, torch.zeros(1)) > 0) for n in range(6)}
    assert signs == {True, False}
    assert [row["ood_error"] for row in found["draws"].rows[:-1]] == pytest.approx([0] * 6, abs=1e-6)
