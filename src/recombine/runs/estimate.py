"""Estimates the training time of runs from stored runs, or from a few measured steps of a similar run.

Runs are similar if they have the same decoder, image size, batch size and number of input units. Estimates assume that
the load of the machine stays the same.
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

from recombine.core import plugins
from recombine.core.statistics import median
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.scoring.scores import score
from recombine.training.setup import Setup
from recombine.training.trainer import Trainer
from recombine.training.training_set import epoch_length


@dataclass(frozen=True)
class Cost:
    """Seconds to build and score a run, and seconds per training step."""

    fixed: float
    per_step: float


class Estimator:
    """Estimates the time of runs in a single process.

    Args:
        store: Store whose runs are used first.
        measure: Seconds to spend on measuring each kind of run.
        budget: Seconds for all measurements. Runs that are not measured are assumed to be as fast as measured ones.
        threads: Threads of the process; by default those of the current one.

    Attributes:
        errors: Errors that plug-ins raised while their runs were measured, by kind of run.
    """

    def __init__(
        self, store: Store, *, measure: float = 0.3, budget: float = math.inf, threads: int | None = None
    ) -> None:
        self._measure, self._threads = measure, threads
        self._until = time.monotonic() + budget
        self._known: dict[str, Cost] = {}
        self.errors: dict[str, str] = {}
        for kind, values in _stored(store).items():
            self._known[kind] = Cost(0.0, median(values))

    def seconds(self, configs: Iterable[RunConfig]) -> list[float]:
        """Estimated seconds of every run, each trained alone."""
        return self.of_batches([[config] for config in configs])

    def of_batches(self, batches: Sequence[Sequence[RunConfig]]) -> list[float]:
        """Estimated seconds of every batch. A batch contains configurations that differ only in their seeds."""
        found = [self._of_batch(batch) for batch in batches]
        known = [seconds for seconds in found if seconds is not None]
        usual = sum(known) / len(known) if known else 0.0
        return [usual if seconds is None else seconds for seconds in found]

    def on_workers(self, batches: Sequence[Sequence[RunConfig]], workers: int) -> float:
        """Estimated seconds of all batches on `workers` parallel workers."""
        each = self.of_batches(batches)
        return max(sum(each) / workers, max(each)) if each else 0.0

    def _of_batch(self, batch: Sequence[RunConfig]) -> float | None:
        """None if the budget for measurements is used up, or if a plug-in raised an error."""
        alone, together = kind_of(batch[0]), f"{kind_of(batch[0])} × {len(batch)}"
        if alone not in self._known and together not in self._known:
            if time.monotonic() >= self._until or alone in self.errors:
                return None
            try:
                self._known[together] = measured(batch, self._measure, self._threads)
            except (Exception, SystemExit) as error:
                if not plugins.in_use():
                    raise
                self.errors[alone] = f"{type(error).__name__}: {error}"
                return None
        cost = self._known[alone] if alone in self._known else self._known[together]
        return len(batch) * cost.fixed + total_steps(batch[0]) * cost.per_step


def total_steps(config: RunConfig) -> int:
    """The number of steps of a run that does not stop early."""
    training = config.recipe()
    return training.total_steps(0 if training.steps is not None else epoch_length(config.task(), training))


def kind_of(config: RunConfig) -> str:
    """A key that is equal for runs with the same expected time per step."""
    return _kind(config.to_dict())


def _kind(config: Mapping[str, Any]) -> str:
    scene, training = config["scene"], config["training"]
    image = [scene.get("kind"), scene["factors"]]
    return json.dumps([image, config["encoding"], config["decoder"], training.get("batch")], sort_keys=True)


def _stored(store: Store) -> dict[str, list[float]]:
    """Map each kind of run to the seconds per step of its stored runs."""
    found: dict[str, list[float]] = {}
    for run in store.list():
        if run.status.finished and run.steps:
            found.setdefault(_kind(run.config), []).append(run.seconds / run.steps)
    return found


def measured(batch: Sequence[RunConfig], at_least: float, threads: int | None = None) -> Cost:
    """Train a batch for a few steps and score one seed. Writes nothing."""
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
