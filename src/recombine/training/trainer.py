"""The trainer, which performs optimization steps and nothing else."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.memory import keep_freed_memory
from recombine.core.seeds import generator
from recombine.models.activations import precision
from recombine.training.fit import check_fit
from recombine.training.program import Single, Stacked
from recombine.training.setup import Setup
from recombine.training.trace import LossTrace
from recombine.training.training_set import TrainingSet


class Trainer:
    """Trains one or several seeds step by step. It knows neither evaluations nor files.

    Args:
        models: One model per seed, all of one architecture. They are not changed before the results are collected,
            unless a single model is trained alone.
        setup: The settings that all seeds share.
        seeds: Determine the drawn examples and their order.
        stacked: Train as one batched program. Always the case for several models.

    Attributes:
        step: Steps done.
        total: Steps of the whole run.
        trace: Losses of all steps done.
    """

    def __init__(
        self, models: Sequence[nn.Module], setup: Setup, seeds: Sequence[int], *, stacked: bool = False
    ) -> None:
        self.setup, self.seeds = setup, list(seeds)
        self.models = [model.to(setup.device) for model in models]
        self.dtype = precision(models[0])
        check_fit(models[0], setup.task, setup.loss, setup.device)
        if stacked or len(models) > 1:
            self.program = Stacked(models, setup.loss, setup.terms)
        else:
            self.program = Single(models[0], setup.loss, setup.terms)
        self.examples = TrainingSet(setup.task, setup.training, setup.device, self.dtype)
        self.total = setup.training.total_steps(sum(p.epoch_length() for p in self.examples.sources))
        self.schedules = [self.examples.schedule(seed, self.total) for seed in seeds]
        self.optimizer = setup.optimizer(list(self.program.parameters.values()), setup.training.learning_rate)
        if not isinstance(self.optimizer, torch.optim.Optimizer):
            got = type(self.optimizer).__name__
            raise InputError(f"The optimizer function must return a torch optimizer. Got {got}.", "optimizer")
        self.trace = LossTrace(len(seeds), self.program.objective.names, self.total, setup.device)
        self.step = 0

    def advance(self) -> None:
        """Perform one step of all seeds."""
        inputs, targets, weights = self.batch(self.step)
        losses = self.program.losses(inputs, targets, self.step / self.total, weights)
        self.optimizer.zero_grad()
        losses[:, 0].sum().backward()
        rate = self.learning_rate(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.trace.record(self.step, losses)
        self.step += 1

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Inputs, targets and weights of a step, (seed, example, …) each."""
        rows = torch.stack([schedule(step) for schedule in self.schedules])
        inputs, targets = self.examples.batch(rows)
        table = self.examples.weights
        return inputs, targets, None if table is None else table[rows.to(table.device)]

    def trained_examples(self, index: int, most: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of distinct examples that a seed is trained on; of many only some, drawn by the seed."""
        rows = torch.cat(self.examples.epoch(self.seeds[index])).unique()
        chosen = torch.randperm(len(rows), generator=generator(self.seeds[index], "finish"))[:most]
        return self.examples.batch(rows[chosen.sort().values])

    def learning_rate(self, step: int) -> float:
        return self.setup.training.learning_rate_at(step, self.total)

    def seconds_per_step(self, at_least: float) -> float:
        """The time of a step. The first steps, which initialize code and memory, are not counted.

        Args:
            at_least: Seconds to measure for; two steps are always measured.
        """
        keep_freed_memory()
        self.program.mode(training=True)
        for _ in range(2):
            self.advance()
        before, started = self.step, time.perf_counter()
        while self.step < before + 2 or time.perf_counter() < started + at_least:
            self.advance()
        return (time.perf_counter() - started) / (self.step - before)
