"""How long a sweep will take: from stored runs of the same settings, else from a few steps of training."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import mean

import torch

from recombine.config import RunConfig
from recombine.errors import RecombineError
from recombine.store import Store
from recombine.training.data import Examples, drawn_rows
from recombine.training.loop import train_seeds

STEPS = 4  # the first is slow, so that the others count
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
    """Train a batch for a few steps with one thread, as a sweep would, and count them up."""
    config, threads = batch[0], torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        task, recipe = config.task(), config.recipe()
        total = recipe.total_steps(len(drawn_rows(Examples(task, recipe, torch.device("cpu")), recipe, config.seed)))
        model, spent = config.model(task), []
        for steps in (1, 1 + STEPS):
            short = recipe.model_copy(update={"steps": min(steps, total), "evaluate_every": 10**9})
            started = time.perf_counter()
            train_seeds(model, task, [c.seed for c in batch], training=short, device="cpu", progress=False)
            spent.append(time.perf_counter() - started)
    finally:
        torch.set_num_threads(threads)
    step = max(0.0, spent[1] - spent[0]) / STEPS
    return spent[1] + step * max(0, total - STEPS)
