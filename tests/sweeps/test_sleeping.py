"""A process that sleeps until its lock is taken over notices, claims nothing of its successor's and leaves nothing."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from recombine import sweeps
from recombine.core.errors import LockLost
from recombine.core.lock import STALE
from recombine.runs import training
from recombine.runs.config import RunConfig
from recombine.runs.layout import RESULTS
from recombine.runs.store import Store
from recombine.sweeps import driver
from recombine.sweeps.engines.engine import ENGINES
from recombine.sweeps.engines.in_process import InProcess

TINY = ["scene.factors.x=6", "scene.factors.y=6", "holdout.lo=2", "holdout.hi=3", "decoder.kind=mlp", "decoder.width=8"]
FILES = {*RESULTS, "run.json"}


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def taken_over(lock):
    """A lock whose holder did not answer for a while."""
    old = time.time() - STALE - 1
    os.utime(lock, (old, old))


def wait_for(condition):
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_driver_that_is_stopped_and_woken_counts_nothing_of_its_successors(tmp_path):
    config = RunConfig.parse([*TINY, "training.steps=4000"])
    words = [
        *TINY,
        "training.steps=4000",
        "--out",
        str(tmp_path),
        "--engine",
        "in-process",
        "--checkpoint-seconds",
        "0.05",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "recombine", "sweep", *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    folder = tmp_path / config.hash
    wait_for((folder / "checkpoint.safetensors").exists)
    process.send_signal(signal.SIGSTOP)
    taken_over(folder / ".lock")
    [run] = Store(tmp_path).train([config], progress=False)
    written = (folder / "run.json").stat()
    process.send_signal(signal.SIGCONT)
    answer, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    found = json.loads(answer)
    assert (found["finished"], found["trained"], found["failed"]) == ([run.id], [], [])
    assert files(folder) == FILES
    after = (folder / "run.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_a_training_whose_lock_is_gone_writes_nothing(tmp_path, monkeypatch):
    config, original = RunConfig.parse([*TINY, "training.steps=3"]), training.run_seeds
    store, written = Store(tmp_path), []

    def slept(*args, **keywords):
        runs = original(*args, **keywords)
        (tmp_path / config.hash / ".lock").unlink()
        return runs

    monkeypatch.setattr(training, "run_seeds", slept)
    with pytest.raises(LockLost):
        store.train([config], progress=False, written=written)
    assert written == []
    assert files(tmp_path / config.hash) == {"config.json"}


class Asleep(InProcess):
    """Jobs do not see the store, so the driver holds the locks; while a job answers, a successor does its work."""

    shares_files = False

    def __init__(self, store, config):
        super().__init__()
        self.store, self.config = store, config

    def poll(self, timeout):
        events = super().poll(timeout)
        lock = self.store.directory(self.config) / ".lock"
        if events and not self.store.is_finished(self.config):
            taken_over(lock)
            self.store.train([self.config], progress=False)
        return events


def test_what_comes_back_after_the_driver_slept_is_not_kept(tmp_path, monkeypatch):
    store, config = Store(tmp_path), RunConfig.parse([*TINY, "training.steps=3"])
    monkeypatch.setitem(ENGINES._members, "asleep", lambda options: Asleep(store, config))
    monkeypatch.setattr(driver, "WAIT_FOR_OTHERS", 0.01)
    result = sweeps.run([config], store, engine="asleep", device="cpu", quiet=True)
    assert (result.finished, result.trained, result.failed) == ([config.hash], [], [])
    assert files(tmp_path / config.hash) == FILES
