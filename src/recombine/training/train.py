"""Trains one model, or one model per seed, for a setup."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from recombine.core.errors import InputError, TrainingDiverged
from recombine.core.seeds import check_seed
from recombine.models.decoders import Decoder
from recombine.training.checkpoint import settle, steps_done
from recombine.training.fit import check_module
from recombine.training.result import TrainingResult
from recombine.training.session import Session
from recombine.training.setup import Setup

WORTH_SAVING = 1.0  # seconds of training that justify a checkpoint

MakeModel = Callable[[int], nn.Module]


@dataclass(frozen=True)
class Keeping:
    """Where and how often the state of a training run is saved.

    Attributes:
        checkpoints: One file per seed; None if nothing is saved.
        seconds: Time between two saves.
        guard: Called before files are replaced; raises if replacing is no longer allowed.
    """

    checkpoints: Sequence[str | Path] | None = None
    seconds: float = 60.0
    guard: Callable[[], None] = lambda: None


def train_one(
    model: nn.Module, setup: Setup, seed: int, keeping: Keeping | None = None, *, progress: bool | None = None
) -> TrainingResult:
    """Train a model in place from its current weights. A `Decoder` is left in evaluation mode."""
    check_module(model)
    keeping = keeping or Keeping()
    session = Session([model], setup, [check_seed(seed)], keeping.checkpoints, guard=keeping.guard)
    session.run(keeping.seconds, progress)
    return all_finished(session.outcomes())[0]


def train_many(
    make: MakeModel,
    setup: Setup,
    seeds: Sequence[int],
    keeping: Keeping | None = None,
    *,
    together: bool,
    progress: bool | None = None,
) -> list[TrainingResult]:
    """Train one model per seed.

    Args:
        make: Returns a model with the initial weights of a seed.
        setup: The settings that all seeds share.
        seeds: One result each.
        keeping: See Keeping.
        together: Train seeds that are at the same step as one batched program.
        progress: Show a progress bar; by default only on a terminal.
    """
    keeping = keeping or Keeping()
    seeds = [check_seed(seed) for seed in seeds]
    if len(set(seeds)) != len(seeds):
        raise InputError(f"Seeds must be distinct. Got {seeds}.", "seed")
    files = keeping.checkpoints
    if files is not None and len(files) != len(seeds):
        raise InputError(f"{len(seeds)} seeds need {len(seeds)} checkpoint files. Got {len(files)}.")
    outcomes: dict[int, TrainingResult | TrainingDiverged] = {}
    for group in _groups(len(seeds), files, together):
        own = replace(keeping, checkpoints=None if files is None else [files[i] for i in group])
        found = _train_group(make, setup, [seeds[i] for i in group], own, together, progress)
        outcomes |= dict(zip(group, found))
    return all_finished([outcomes[i] for i in range(len(seeds))])


def _groups(n: int, files: Sequence[str | Path] | None, together: bool) -> list[list[int]]:
    """Which seeds train together: those at the same step."""
    if not together:
        return [[i] for i in range(n)]
    if not files:
        return [list(range(n))] if n else []
    settle([Path(path) for path in files])
    groups: dict[Any, list[int]] = {}
    for i in range(n):
        groups.setdefault(steps_done(Path(files[i])), []).append(i)
    return list(groups.values())


def _train_group(
    make: MakeModel, setup: Setup, seeds: list[int], keeping: Keeping, together: bool, progress: bool | None
) -> list[TrainingResult | TrainingDiverged]:
    # stacked even for a single seed, so that the rest of an interrupted batch is computed like the whole batch
    models = [make(seed) for seed in seeds]
    session = Session(models, setup, seeds, keeping.checkpoints, stacked=together, guard=keeping.guard)
    session.run(keeping.seconds, progress)
    if keeping.checkpoints and (len(seeds) > 1 or session.seconds > WORTH_SAVING):
        session.checkpointing.save()  # a kill or a full disk while writing results must not separate the seeds
    outcomes = session.outcomes()
    if len(seeds) == 1:
        return outcomes
    # a diverging seed may affect those stacked with it (NaN times zero), so each is trained alone to find its own
    # outcome
    return [
        _alone(make, setup, seed, together) if isinstance(outcome, TrainingDiverged) else outcome
        for seed, outcome in zip(seeds, outcomes)
    ]


def _alone(make: MakeModel, setup: Setup, seed: int, stacked: bool) -> TrainingResult | TrainingDiverged:
    session = Session([make(seed)], setup, [seed], stacked=stacked)
    session.run(math.inf)
    return session.outcomes()[0]


def all_finished(outcomes: Sequence[TrainingResult | TrainingDiverged]) -> list[TrainingResult]:
    """The results if all seeds finished; otherwise raises an error with the diverged seeds and the other results."""
    results = [o for o in outcomes if isinstance(o, TrainingResult)]
    errors = [o for o in outcomes if isinstance(o, TrainingDiverged)]
    if errors:
        by_seed = {seed: why for error in errors for seed, why in error.by_seed.items()}
        causes = {seed: cause for error in errors for seed, cause in error.causes.items()}
        raise TrainingDiverged(by_seed, finished=results, causes=causes)
    return results


def copies_of(decoder: Decoder) -> MakeModel:
    """Returns a function that copies a decoder with the initial weights of a seed. The decoder is not changed."""
    return lambda seed: copy.deepcopy(decoder).initialize(seed)


def seeded(factory: MakeModel) -> MakeModel:
    """Wrap a factory so that each seed has its own random numbers. torch's global random state is left unchanged."""

    def make(seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            model = factory(seed)
        if not isinstance(model, nn.Module):
            raise InputError(f"A factory must return an nn.Module for a seed. Got {type(model).__name__}.", "model")
        return model

    return make
