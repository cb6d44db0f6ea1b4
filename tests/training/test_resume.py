"""A killed run goes on bit for bit, and a damaged checkpoint is noticed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import recombine as rc
from recombine.core import files
from recombine.core.errors import StoreError, TrainingInterrupted
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.training import recipe
from recombine.training.checkpoint import DamagedCheckpoint
from recombine.training.trainer import Trainer

RESULTS = ("model/model.safetensors", "scores.csv", "history.jsonl", "losses.safetensors")
STEPS = 60
TINY = ["scene.factors.x=8", "scene.factors.y=8", "holdout.lo=2", "holdout.hi=5", "training.kind=recommended",
        f"training.steps={STEPS}", "training.evaluate_every=7"]  # fmt: skip
MODELS = {
    "cnn": [*TINY, "decoder.kind=cnn", "decoder.depth=2", "decoder.width=8"],
    "deconv": [*TINY, "decoder.kind=deconv", "decoder.width=4"],  # whose batch norm has averages to keep
    "mlp, three seeds together": [*TINY, "decoder.kind=mlp", "decoder.width=32", "training.stop_below=0.004"],
}
# Checkpoints after every step, and slow enough for a kill to land in the middle of the run.
WORKER = """
import sys, time, json
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.training.trainer import Trainer
advance = Trainer.advance
Trainer.advance = lambda self: (time.sleep(0.004), advance(self))
words, seeds, out = json.loads(sys.argv[1])
Store(out).train([RunConfig.parse([*words, f"seed={s}"]) for s in seeds], checkpoint_seconds=0.0, device="cpu")
"""


def start(words, seeds, out):
    """Start a worker; what it says goes to a file beside its store."""
    command = [sys.executable, "-c", WORKER, json.dumps([words, seeds, str(out)])]
    with said(out).open("w") as file:
        return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=file)


def said(out: Path) -> Path:
    return out.with_suffix(".log")


def wait_for_step(path: Path, step: int, process):
    from recombine.training.checkpoint import steps_done

    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert process.poll() is None, "the run ended too early"
        if path.exists() and steps_done(path) >= step:
            return
        time.sleep(0.01)
    raise AssertionError("the run never got there")


@pytest.mark.parametrize(
    ("name", "stop", "steps"),
    [
        ("cnn", signal.SIGKILL, (20,)),
        pytest.param("cnn", signal.SIGKILL, (20, 45), marks=pytest.mark.long),
        pytest.param("deconv", signal.SIGKILL, (20,), marks=pytest.mark.long),
        pytest.param("mlp, three seeds together", signal.SIGKILL, (20, 45), marks=pytest.mark.long),
        ("mlp, three seeds together", signal.SIGINT, (30,)),
    ],
)
def test_a_stopped_run_goes_on_to_bit_identical_results(tmp_path, name, stop, steps):
    words, seeds = MODELS[name], [0, 1, 2] if "seeds" in name else [0]
    configs = [RunConfig.parse([*words, f"seed={s}"]) for s in seeds]
    Store(tmp_path / "a").train(configs, device="cpu")

    for step in steps:
        process = start(words, seeds, tmp_path / "b")
        wait_for_step(tmp_path / "b" / configs[-1].hash / "checkpoint.safetensors", step, process)
        process.send_signal(stop)
        code = process.wait(300)
        if stop == signal.SIGKILL:
            assert code == -signal.SIGKILL
        else:
            assert "Interrupted at step" in said(tmp_path / "b").read_text()
        assert not any((tmp_path / "b" / c.hash / "run.json").exists() for c in configs)
    Store(tmp_path / "b").train(configs, device="cpu")

    for config in configs:
        for result in RESULTS:
            a, b = (tmp_path / folder / config.hash / result for folder in "ab")
            assert a.read_bytes() == b.read_bytes(), result
        assert not (tmp_path / "b" / config.hash / "checkpoint.safetensors").exists()


@pytest.fixture
def task():
    space = rc.FactorSpace(x=8, y=8)
    return rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.centre(space, 2, 5))


def checkpointed(task, path, **settings):
    training = recipe("recommended", **{"steps": 20, **settings})
    return rc.train(rc.decoders.MLP(task, width=16), task, training=training, checkpoint=path, checkpoint_seconds=0.0)


def test_a_checkpoint_of_other_settings_is_refused(task, tmp_path):
    checkpointed(task, tmp_path / "c")
    with pytest.raises(StoreError, match="belongs to a run with other settings"):
        checkpointed(task, tmp_path / "c", learning_rate=0.5)


def test_a_truncated_checkpoint_is_refused(task, tmp_path):
    checkpointed(task, tmp_path / "c")
    (tmp_path / "c").write_bytes((tmp_path / "c").read_bytes()[:-100])
    with pytest.raises(DamagedCheckpoint, match="truncated") as caught:
        checkpointed(task, tmp_path / "c")
    assert caught.value.path == tmp_path / "c"


def test_a_tampered_checkpoint_is_refused(task, tmp_path):
    checkpointed(task, tmp_path / "c")
    content = bytearray((tmp_path / "c").read_bytes())
    content[-3] ^= 1
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(StoreError, match="digest does not match"):
        checkpointed(task, tmp_path / "c")


def test_a_foreign_file_is_refused(task, tmp_path):
    safetensors.torch.save_file({"a": torch.zeros(3)}, tmp_path / "c")
    with pytest.raises(StoreError, match="not written by recombine"):
        checkpointed(task, tmp_path / "c")


@pytest.mark.parametrize("damage", ["step", "shape", "history", "trace", "random"])
def test_a_checkpoint_that_does_not_fit_is_refused_with_advice(task, tmp_path, damage):
    checkpointed(task, tmp_path / "c")
    tensors, metadata = files.read_tensors(tmp_path / "c")
    facts = json.loads(metadata["facts"])
    if damage == "step":
        facts["step"] = 7
    elif damage == "history":
        facts["history"] = [1, 2]
    elif damage == "shape":
        tensors["model.out.bias"] = torch.zeros(3)
    else:
        del tensors["trace" if damage == "trace" else "random.cpu"]
    files.write_tensors(tmp_path / "c", tensors, {**metadata, "facts": json.dumps(facts)})
    with pytest.raises(DamagedCheckpoint, match="does not match its run") as caught:
        checkpointed(task, tmp_path / "c")
    assert caught.value.path == tmp_path / "c"


class Weighted:
    name = "weighted"

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, model, batch):
        return self.weight * model.out.bias.square().sum()


def test_a_checkpoint_of_another_weight_of_a_term_is_refused(task, tmp_path):
    def train(weight):
        return rc.train(rc.decoders.MLP(task, width=16), task, training=recipe("recommended", steps=20),
                        checkpoint=tmp_path / "c", checkpoint_seconds=0.0, terms=[Weighted(weight)])  # fmt: skip

    train(0.5)
    train(0.5)
    with pytest.raises(StoreError, match="belongs to a run with other settings"):
        train(100.0)


class Odd(Weighted):
    def __init__(self, weight, **attributes):
        super().__init__(weight)
        self.__dict__.update(attributes)

    def __call__(self, model, batch):
        self._calls = getattr(self, "_calls", 0) + 1  # private: no setting
        return super().__call__(model, batch)


class OwnBump(rc.encodings.Bump):
    gain = 1.0

    def __call__(self, values, present=None):
        return self.gain * super().__call__(values, present)


RING = []
RING.append(RING)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (Odd(1.0), Odd(1.0), True),
        (Odd(1.0, table={(0, 1): 2.0}), Odd(1.0, table={(0, 1): 2.0}), True),
        (Odd(1.0, table={0: 1.0, "a": 2.0}), Odd(1.0, table={0: 1.0, "a": 3.0}), False),
        (Odd(1.0, ring=RING), Odd(1.0, ring=RING), True),
        (Odd(1.0, t=torch.ones(2)), Odd(1.0, t=torch.zeros(2)), False),
        (Odd(1.0, t=np.ones(2)), Odd(1.0, t=np.zeros(2)), False),
        (Odd(1.0, helper=object()), Odd(1.0, helper=object()), True),
    ],
)
def test_what_tells_terms_apart(task, tmp_path, first, second, same):
    def train(term):
        return rc.train(rc.decoders.MLP(task, width=8), task, training=recipe("recommended", steps=5),
                        checkpoint=tmp_path / "c", checkpoint_seconds=0.0, terms=[term])  # fmt: skip

    train(first)
    train(first)
    with nullcontext() if same else pytest.raises(StoreError, match="other settings"):
        train(second)


def test_a_checkpoint_of_other_attributes_of_an_own_encoding_is_refused(task, tmp_path):
    def own(gain):
        encoding = OwnBump(task.space)
        encoding.gain = gain
        return rc.Task(task.scene, encoding, task.holdout)

    checkpointed(own(1.0), tmp_path / "c")
    checkpointed(own(1.0), tmp_path / "c")
    with pytest.raises(StoreError, match="other settings"):
        checkpointed(own(5.0), tmp_path / "c")


def test_training_again_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    config = RunConfig.parse([*MODELS["cnn"], "seed=0"])
    before = Store(tmp_path).train([config])[0].facts
    advance, steps = Trainer.advance, []

    def interrupted(self):
        advance(self)
        steps.append(self.step)
        if self.step == 40:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "advance", interrupted)
    with pytest.raises(TrainingInterrupted):
        Store(tmp_path).train([config], force=True)
    assert Store(tmp_path).load(config.hash).facts == before
    after = Store(tmp_path).train([config], force=True)[0].facts
    assert steps == list(range(1, STEPS + 1))
    assert after["files"] == before["files"]
    assert not (Store(tmp_path).directory(config) / "checkpoint.safetensors").exists()


def test_ctrl_c_while_a_run_is_scored_loses_no_step(tmp_path, monkeypatch):
    config = RunConfig.parse([*MODELS["cnn"], "seed=0"])
    monkeypatch.setattr("recombine.training.train.WORTH_SAVING", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr("recombine.training.session.score", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Store(tmp_path).train([config])
    monkeypatch.setattr(Trainer, "advance", lambda self: pytest.fail("a step is done again"))
    assert Store(tmp_path).train([config])[0].facts["steps"] == STEPS


def test_a_full_disk_leaves_the_last_good_checkpoint(task, tmp_path, monkeypatch):
    checkpointed(task, tmp_path / "c", steps=10)
    good = (tmp_path / "c").read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(StoreError, match=r"No space left on device. The previous version of it is untouched"):
        files.write_bytes(tmp_path / "c", b"new")
    assert (tmp_path / "c").read_bytes() == good
    assert os.listdir(tmp_path) == ["c"]


def test_a_place_that_cannot_hold_a_checkpoint_is_refused_at_once(task, tmp_path):
    with pytest.raises(StoreError, match="is a folder"):
        checkpointed(task, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Cannot write a checkpoint to"):
        checkpointed(task, tmp_path / "file" / "c")


def test_checkpoints_change_nothing(task, tmp_path):
    saved = checkpointed(task, tmp_path / "c", steps=25, evaluate_every=10)
    plain = rc.train(rc.decoders.MLP(task, width=16), task, training=recipe("recommended", steps=25, evaluate_every=10))
    assert saved.history == plain.history
    assert torch.equal(saved.losses, plain.losses)


def test_a_store_resumes_only_what_is_not_finished(tmp_path):
    config = RunConfig.parse([*MODELS["mlp, three seeds together"], "seed=0"])
    [run] = Store(tmp_path).train([config])
    before = (run.path / "run.json").read_bytes()
    Store(tmp_path).train([config])
    assert (run.path / "run.json").read_bytes() == before
    results = {name: (run.path / name).read_bytes() for name in RESULTS}
    (run.path / "scores.csv").write_text("something else")
    Store(tmp_path).train([config], force=True)
    assert {name: (run.path / name).read_bytes() for name in RESULTS} == results


def test_a_kill_while_seeds_are_saved_does_not_part_them(tmp_path, monkeypatch):
    """Seeds of the rendered decoder share convolutions: apart they would round differently."""
    words = ["scene.factors.x=8", "scene.factors.y=8", "encoding.kind=onehot", "holdout.kind=corner",
             "holdout.threshold=5", "decoder.kind=rendered", "training.kind=low_rank", "training.steps=12"]  # fmt: skip
    configs = [RunConfig.parse([*words, f"seed={seed}"]) for seed in range(3)]
    undisturbed = Store(tmp_path / "a").train(configs, checkpoint_seconds=0.0)
    real, store = os.replace, Store(tmp_path / "b")
    for killed_at in (2, 4, 9, 11, 17, 20):  # of all files that take their names: while preparing and while adopting
        calls = []

        def dying(source, target, calls=calls, killed_at=killed_at):
            calls.append(target)
            if len(calls) == killed_at + 3:  # after the three config.json
                raise SystemExit
            real(source, target)

        monkeypatch.setattr(os, "replace", dying)
        with pytest.raises(SystemExit):
            store.train(configs, checkpoint_seconds=0.0)
        monkeypatch.setattr(os, "replace", real)
    for before, after in zip(undisturbed, store.train(configs, checkpoint_seconds=0.0)):
        for result in RESULTS:
            assert (before.path / result).read_bytes() == (after.path / result).read_bytes(), result
        assert not list(after.path.glob("*checkpoint*"))
