"""The TensorBoard callback writes what the history has, and says what it needs."""

import sys

import pytest
import torch

import recombine as rc
from recombine.core.errors import InputError
from recombine.training.callbacks import TensorBoard


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_number_of_the_history_is_a_scalar(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    space = rc.FactorSpace(x=4, y=4)
    task = rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.centre(space, 1, 2))
    training = rc.recipe("recommended", steps=6, evaluate_every=2)
    runs = rc.train_seeds(
        lambda seed: torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Unflatten(1, (4, 4))), task, [0, 1],
        training=training, callbacks=[TensorBoard(tmp_path)], progress=False,
    )  # fmt: skip
    for run in runs:
        events = accumulator.EventAccumulator(str(tmp_path / f"seed-{run.seed}")).Reload()
        assert set(events.Tags()["scalars"]) == set(run.history[0]) - {"step"}
        for name in events.Tags()["scalars"]:
            written = {event.step: event.value for event in events.Scalars(name)}
            assert written == pytest.approx({row["step"]: row[name] for row in run.history}, rel=1e-6)


def test_it_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"recombine\[tensorboard\]"):
        TensorBoard(tmp_path)
