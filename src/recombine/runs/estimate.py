"""How long runs will take: from the runs in a store, or from a few steps of one that is like them.

Runs are alike if they have the same decoder, image, batch and number of input units. A busy machine takes longer.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from recombine.core.statistics import median
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.scoring.scores import score
from recombine.training.setup import Setup
from recombine.training.trainer import Trainer
from recombine.training.training_set import epoch_length


@dataclass(frozen=True)
class Cost:
    """Seconds of making and scoring a run, and of each of its steps."""

    fixed: float
    per_step: float


class Estimator:
    """Estimates the time of runs in one process.

    Args:
        store: Its runs are looked at first.
        measure: Seconds of steps to measure for each sort of run.
        budget: Seconds for all measurements together; runs beyond it are taken to be like those measured.
        threads: Of the process; those of this one unless given.
    """

    def __init__(
        self, store: Store, *, measure: float = 0.3, budget: float = math.inf, threads: int | None = None
    ) -> None:
        self._measure, self._threads = measure, threads
        self._until = time.monotonic() + budget
        self._known: dict[str, Cost] = {}
        for kind, values in _stored(store).items():
            self._known[kind] = Cost(0.0, median(values))

    def seconds(self, configs: Iterable[RunConfig]) -> list[float]:
        """Of every run, each by itself."""
        return self.of_batches([[config] for config in configs])

    def of_batches(self, batches: Sequence[Sequence[RunConfig]]) -> list[float]:
        """Of every batch of configurations that differ in their seeds and are trained together."""
        found = [self._of_batch(batch) for batch in batches]
        known = [seconds for seconds in found if seconds is not None]
        usual = sum(known) / len(known) if known else 0.0
        return [usual if seconds is None else seconds for seconds in found]

    def on_workers(self, batches: Sequence[Sequence[RunConfig]], workers: int) -> float:
        """Of all batches side by side on so many workers."""
        each = self.of_batches(batches)
        return max(sum(each) / workers, max(each)) if each else 0.0

    def _of_batch(self, batch: Sequence[RunConfig]) -> float | None:
        """None if there is no time left to find out."""
        alone, together = kind_of(batch[0]), f"{kind_of(batch[0])} × {len(batch)}"
        if alone not in self._known and together not in self._known:
            if time.monotonic() >= self._until:
                return None
            self._known[together] = measured(batch, self._measure, self._threads)
        cost = self._known[alone] if alone in self._known else self._known[together]
        return len(batch) * cost.fixed + total_steps(batch[0]) * cost.per_step


def total_steps(config: RunConfig) -> int:
    """The steps a run takes unless it stops early."""
    training = config.recipe()
    return training.total_steps(0 if training.steps is not None else epoch_length(config.task(), training))


def kind_of(config: RunConfig) -> str:
    """What runs of one speed have in common."""
    return _kind(config.to_dict())


def _kind(config: Mapping[str, Any]) -> str:
    scene, training = config["scene"], config["training"]
    image = [scene.get("kind"), scene["factors"]]
    return json.dumps([image, config["encoding"], config["decoder"], training.get("batch")], sort_keys=True)


def _stored(store: Store) -> dict[str, list[float]]:
    """Kind of run → seconds per step of each that is stored."""
    found: dict[str, list[float]] = {}
    for run in store.list():
        if run.status.finished and run.steps:
            found.setdefault(_kind(run.config), []).append(run.seconds / run.steps)
    return found


def measured(batch: Sequence[RunConfig], at_least: float, threads: int | None = None) -> Cost:
    """Train a batch for a few steps and score one seed; nothing is written."""
    with _threads(threads):
        started = time.perf_counter()
        task, recipe = batch[0].task(), batch[0].recipe()
        models = [config.model(task) for config in batch]
        trainer = Trainer(
            models, Setup.of(task, recipe, device="cpu"), [c.seed for c in batch], stacked=models[0].stacks
        )
        score(models[0], task, any_scale=True)
        fixed = time.perf_counter() - started
        return Cost(fixed, trainer.seconds_per_step(at_least))


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
