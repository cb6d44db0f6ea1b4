"""Trains runs of a store and writes the results. Checkpoints are stored in the folders of the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recombine.core.errors import LockLost, StoreError, TrainingDiverged
from recombine.core.files import set_aside, write_json
from recombine.core.lock import Lock
from recombine.runs.config import RunConfig
from recombine.runs.layout import CHECKPOINT, CONFIG, RUN
from recombine.runs.run import Run
from recombine.runs.train import run_seeds
from recombine.runs.writing import clear_way, write_run
from recombine.training.checkpoint import DamagedCheckpoint, discard, steps_done
from recombine.training.setup import Setup
from recombine.training.train import Keeping, copies_of


@dataclass(frozen=True, kw_only=True)
class How:
    """See `Store.train`."""

    force: bool
    device: str
    checkpoint_seconds: float
    progress: bool | None


def train_group(root: Path, locks: Mapping[RunConfig, Lock], how: How, written: list[str]) -> None:
    """Train configurations that differ only in their seeds, write their runs, and append their ids to `written`.

    Raises:
        LockLost: If another process took over a lock. Nothing is written into its runs.
    """
    for config in locks:
        folder = root / config.hash
        clear_way(folder)
        write_json(folder / CONFIG, config.to_dict())
        if how.force and not _is_being_redone(folder):
            discard(folder / CHECKPOINT)
    runs: Sequence[Run] = ()
    try:
        runs = _trained(root, locks, how)
    except TrainingDiverged as error:
        runs = error.finished
        raise
    except LockLost:
        _leave(root, locks)
        raise
    finally:
        _write(root, locks, runs, written)


def _trained(root: Path, locks: Mapping[RunConfig, Lock], how: How) -> list[Run]:
    """Train from the checkpoints. An unusable checkpoint is renamed, and its seed starts again."""
    configs = list(locks)
    task = configs[0].task()
    model = configs[0].model(task)
    setup = Setup.of(task, configs[0].recipe(), device=how.device)
    files = [root / config.hash / CHECKPOINT for config in configs]

    def guard() -> None:
        for lock in locks.values():
            lock.check()

    keeping = Keeping(files, how.checkpoint_seconds, guard)
    seeds = [config.seed for config in configs]
    together = model.stacks and setup.can_stack
    while True:
        try:
            return run_seeds(copies_of(model), setup, seeds, keeping, together=together, progress=how.progress)
        except DamagedCheckpoint as error:
            set_aside(error.path)  # every iteration removes a file, so the loop terminates


def _write(root: Path, locks: Mapping[RunConfig, Lock], runs: Sequence[Run], written: list[str]) -> None:
    by_seed = {config.seed: config for config in locks}
    lost: LockLost | None = None
    for run in runs:
        config = by_seed[run.seed]
        try:
            locks[config].check()
        except LockLost as error:
            lost = error
            continue
        write_run(root / config.hash, config, run)
        written.append(config.hash)
    if lost is not None:
        _leave(root, locks)
        raise lost


def _leave(root: Path, locks: Mapping[RunConfig, Lock]) -> None:
    """Remove the checkpoints of runs that another process has finished."""
    for config, lock in locks.items():
        try:
            lock.check()
        except LockLost:
            if (root / config.hash / RUN).is_file():
                discard(root / config.hash / CHECKPOINT)


def _is_being_redone(folder: Path) -> bool:
    """Whether a finished run has a checkpoint, which an interrupted attempt to train it again left behind."""
    try:
        return (folder / RUN).is_file() and steps_done(folder / CHECKPOINT) is not None
    except StoreError:
        return False
