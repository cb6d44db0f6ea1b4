"""Every decoder trains on and is scored for a coloured task with labels and missing cells."""

import numpy as np
import pytest

import recombine as rc
from recombine.models.decoders import DECODERS
from recombine.training.recipe import recipe
from tests.colour import coloured_task
from tests.models.test_decoders import CASES

TRAINING = recipe("paper", steps=4, batch=8, evaluate_every=2)


@pytest.mark.parametrize("kind", CASES)
def test_every_decoder_trains_on_colour_images(kind):
    task = coloured_task(inverse=DECODERS.components[kind].inverse)
    run = rc.train(DECODERS.build({"kind": kind, **CASES[kind][0]}, task), task, training=TRAINING, progress=False)
    metrics = {"position_error", "localization"} if task.inverse else {"psnr", "ssim"}
    assert set(run.scores.columns) == {"mse", "relative_error", *metrics}
    gone = run.scores.split == "unavailable"
    assert gone.sum() == 5
    for column in run.scores.columns.values():
        assert np.array_equal(np.isnan(column), gone)
    assert all(value is not None for value in run.scores.summary().to_json().values())


@pytest.mark.parametrize("kind", ["mlp", "rendered"])
def test_several_seeds_on_colour_images_train_as_alone(kind):
    task = coloured_task()
    model = DECODERS.build({"kind": kind, **CASES[kind][0]}, task)
    together, alone = (
        rc.train_seeds(model, task, [0, 1], training=TRAINING, together=way, progress=False) for way in (True, False)
    )
    for one, other in zip(together, alone):
        assert np.allclose(one.scores.columns["mse"], other.scores.columns["mse"], rtol=1e-4, equal_nan=True)
