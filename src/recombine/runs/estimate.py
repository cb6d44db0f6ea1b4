"""How long a sweep will take: from stored runs of the same settings, else from a few steps of training."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import mean

import torch

from recombine.core.errors import RecombineError
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.scoring.scores import score
from recombine.training.loop import Loop

LONG_ENOUGH = 0.05  # seconds of steps for each kind of batch
BUDGET = 6.0  # seconds for all trials together; batches beyond it are taken to be like those tried


def seconds(batches: Sequence[Sequence[RunConfig]], store: Store, workers: int) -> float:
    """Estimated seconds to train all batches on so many workers."""
    if not batches:
        return 0.0
    stored = _stored(store)
    known: list[float | None] = [stored.get(batch[0].seedless_hash) for batch in batches]
    tried: dict[tuple[str, int], float] = {}
    until = time.monotonic() + BUDGET
    for i, batch in enumerate(batches):
        key = (batch[0].seedless_hash, len(batch))
        if known[i] is None and (key in tried or time.monotonic() < until):
            known[i] = tried[key] = tried[key] if key in tried else _trial(batch)
    usual = mean([k for k in known if k is not None] or [0.0])
    each = [usual if k is None else k for k in known]
    return max(sum(each) / workers, max(each))


def _stored(store: Store) -> dict[str, float]:
    """Setting → seconds that a run of it took."""
    found: dict[str, float] = {}
    for run in store.ids():
        try:
            stored = store.load(run)
        except RecombineError:
            continue
        key = stored.config.seedless_hash
        found[key] = max(found.get(key, 0.0), float(stored.facts["seconds"]))
    return found


def _trial(batch: Sequence[RunConfig]) -> float:
    """Train a batch for a few steps with one thread, as a sweep would, score one seed, and count both up."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        task, recipe = batch[0].task(), batch[0].recipe()
        started = time.perf_counter()
        models = [config.model(task).initialize(config.seed) for config in batch]
        loop = Loop(models, task, [c.seed for c in batch], recipe, (), "cpu", None, stacked=models[0].stacks)
        made = time.perf_counter()
        score(models[0], task)
        scored = time.perf_counter()
        return made - started + len(batch) * (scored - made) + loop.total * loop.seconds_per_step(LONG_ENOUGH)
    finally:
        torch.set_num_threads(threads)
