"""How long runs will take: from the runs in the store, or from a few steps of one that is like them.

Runs are alike if they have the same decoder, image, batch and number of input units. Estimates are of one process with
the threads it has now; a busy machine takes longer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from recombine.core.errors import StoreError
from recombine.core.statistics import median
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.training.loop import Loop
from recombine.training.training_set import epoch_length

LONG_ENOUGH = 0.3  # seconds of steps, for each kind of run


def total_steps(config: RunConfig) -> int:
    """The steps a run takes unless it stops early."""
    training = config.recipe()
    return training.total_steps(0 if training.steps is not None else epoch_length(config.task(), training))


class Costs:
    """Seconds per step of every kind of run, measured once each.

    Args:
        store: Its runs are looked at first.
    """

    def __init__(self, store: Store) -> None:
        self._measured: dict[str, float] = {}
        stored: dict[str, list[float]] = {}
        for name in store.ids():
            if (store.root / name / "run.json").is_file():
                try:
                    run = store.load(name)
                except StoreError:  # damaged, and to be trained again
                    continue
                if run.facts["steps"]:
                    stored.setdefault(kind(run.config), []).append(run.facts["seconds"] / run.facts["steps"])
        self._stored = {like: median(values) for like, values in stored.items()}

    def seconds(self, configs: Iterable[RunConfig]) -> list[float]:
        """Of every run, one after the other."""
        return [self._per_step(config) * total_steps(config) for config in configs]

    def _per_step(self, config: RunConfig) -> float:
        like = kind(config)
        if like in self._stored:
            return self._stored[like]
        if like not in self._measured:
            self._measured[like] = _measure(config)
        return self._measured[like]


def kind(config: RunConfig) -> str:
    """What runs of one speed have in common."""
    image = [config.scene["kind"], config.scene["factors"]]
    return json.dumps([image, config.encoding, config.decoder, config.training["batch"]], sort_keys=True)


def _measure(config: RunConfig) -> float:
    """Seconds per step of a few steps, nothing written and nothing scored."""
    task = config.task()
    model = config.model(task).initialize(config.seed)
    training = config.recipe().model_copy(update={"evaluate_cells": 1})
    loop = Loop([model], task, [config.seed], training, (), "cpu", None, stacked=model.stacks)
    return loop.seconds_per_step(LONG_ENOUGH)
