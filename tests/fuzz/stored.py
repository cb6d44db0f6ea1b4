"""A small store, as files: a sweep of a run with a diagnosis and one without, and a run that was killed."""

from __future__ import annotations

import functools
import os
import signal
import tempfile
import time
from pathlib import Path

SMALL = [
    "scene.factors={x: 4, y: 4}", "decoder.kind=mlp", "decoder.width=4", "decoder.depth=1", "holdout.kind=centre",
    "holdout.lo=1", "holdout.hi=2",
]  # fmt: skip
RUNS = {"diagnosed": "training.steps=2", "plain": "training.steps=3", "killed": "training.steps=200"}


def settings(name: str) -> list[str]:
    """The words that train one of the runs."""
    return [*SMALL, RUNS[name]]


@functools.cache
def run_ids() -> dict[str, str]:
    """Name → id of the runs."""
    from recombine.runs.config import RunConfig

    return {name: RunConfig.parse(settings(name)).hash for name in RUNS}


def stored_files(seconds: float = 120.0) -> dict[str, bytes]:
    """Path below the working directory → content. Made in processes of their own: training starts threads."""
    with tempfile.TemporaryDirectory() as folder:
        _in_fork(lambda: _train(Path(folder), ["diagnosed", "plain"], 60.0), lambda: False, seconds)
        run = Path(folder) / "runs" / run_ids()["killed"]
        _in_fork(lambda: _train(Path(folder), ["killed"], 0.0), (run / "checkpoint.safetensors").exists, seconds)
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file() and not path.name.startswith((".lock", "next-")) and not path.name.endswith(".part")
        }


def _train(folder: Path, names: list[str], checkpoint_seconds: float) -> None:
    from recombine import sweeps
    from recombine.runs.config import RunConfig
    from recombine.runs.store import Store

    configs = [RunConfig.parse(settings(name)) for name in names]
    store = Store(folder / "runs")
    sweeps.run(configs, store, engine="in-process", checkpoint_seconds=checkpoint_seconds, device="cpu", quiet=True)
    if "diagnosed" in names:
        store.load(configs[0].hash).diagnose(parts=["errors", "outputs", "probes"], progress=False)


def _in_fork(work, enough, seconds: float) -> None:
    """Do something in a fork until it ends, until there is enough of it, or until the time is over."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        if enough():
            break
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
