"""Evaluations during training: the history, the early stop, and losses that are not finite."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from recombine.core.errors import TrainingDiverged
from recombine.core.seeds import generator
from recombine.training.divergence import explain
from recombine.training.trainer import Trainer


@dataclass
class SeedRecord:
    """The progress of one seed.

    Attributes:
        history: One row per evaluation.
        best: Lowest ID error so far.
        without_improvement: Evaluations since then.
        stopped: Whether its evaluation has ended; its steps continue while other seeds need them.
        diverged: Why, if it did.
        final: The weights it stopped with.
    """

    history: list[dict[str, float | int]] = field(default_factory=list)
    best: float = math.inf
    without_improvement: int = 0
    stopped: bool = False
    diverged: TrainingDiverged | None = None
    final: dict[str, Tensor] | None = None


class Evaluator:
    """Evaluates a trainer at regular steps and decides which seeds stop early.

    Attributes:
        records: One per seed.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.records = [SeedRecord() for _ in trainer.seeds]
        self.checked = 0  # steps whose losses are known to be finite
        self._inputs, self._targets, self._n_id = self._cells()

    def _cells(self) -> tuple[Tensor, Tensor, int]:
        """Inputs and targets of the evaluation cells, ID ones first, and how many of them are ID."""
        trainer, task = self.trainer, self.trainer.setup.task
        chosen = []
        for name, cells in (("id", task.holdout.id_cells), ("ood", task.holdout.ood_cells)):
            shuffled = torch.randperm(len(cells), generator=generator(0, "evaluate", name))
            chosen.append(cells[shuffled[: trainer.setup.training.evaluate_cells]])
        values = task.space.values(torch.cat(chosen)).to(trainer.setup.device, trainer.dtype)
        return task.inputs(values), task.targets(values), len(chosen[0])

    @property
    def is_due(self) -> bool:
        trainer = self.trainer
        return trainer.step % trainer.setup.training.evaluate_every == 0 or trainer.step == trainer.total

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to train."""
        return self.trainer.step >= self.trainer.total or all(record.stopped for record in self.records)

    def evaluate(self) -> str:
        """Add a row to each seed's history, apply the early stop, and return the note for the progress bar."""
        self.check_finite()
        trainer = self.trainer
        every = trainer.setup.training.evaluate_every
        since = (
            (trainer.step - 1) // every * every
        )  # depends only on the step, so that checkpoints have no effect on it
        errors = self._errors()
        means = trainer.trace.means(since, trainer.step)
        rate = trainer.learning_rate(trainer.step - 1)
        for i, record in enumerate(self.records):
            if not record.stopped and not math.isfinite(errors[i]["id_mse"]):
                self._diverge(i, trainer.step, ["id_mse"])
            if record.stopped:
                continue
            row = {"step": trainer.step, "learning_rate": rate, **means[i], **errors[i]}
            record.history.append(row)
            self._stop_early(i, errors[i]["id_mse"])
            for callback in trainer.setup.callbacks:
                callback.on_evaluate(trainer.seeds[i], row)
        shown = {name: sum(own[name] for own in errors) / len(errors) for name in errors[0]}
        return "  ".join(f"{name.removesuffix('_mse').upper()} {error:.1e}" for name, error in shown.items())

    def _errors(self) -> list[dict[str, float]]:
        """id_mse and, if there are OOD cells, ood_mse of each seed."""
        program = self.trainer.program
        program.mode(training=False)
        with torch.no_grad():
            errors = (program.outputs(self._inputs) - self._targets).square().flatten(2).mean(-1)
        program.mode(training=True)
        parts = {"id_mse": errors[:, : self._n_id], "ood_mse": errors[:, self._n_id :]}
        means = {name: part.mean(1).tolist() for name, part in parts.items() if part.shape[1]}
        return [{name: own[i] for name, own in means.items()} for i in range(len(self.records))]

    def check_finite(self) -> None:
        """Stop seeds with a non-finite loss. Called at intervals: reading the loss after each step would stall."""
        trainer = self.trainer
        for i, step in enumerate(trainer.trace.first_bad_steps(self.checked, trainer.step)):
            if step is not None and not self.records[i].stopped:
                self._diverge(i, step, trainer.trace.bad_columns(i, step))
        self.checked = trainer.step

    def _diverge(self, index: int, step: int, columns: list[str]) -> None:
        self.records[index].stopped = True
        self.records[index].diverged = explain(self.trainer, index, step, columns)

    def _stop_early(self, index: int, error: float) -> None:
        record, recipe = self.records[index], self.trainer.setup.training
        record.without_improvement = 0 if error < record.best else record.without_improvement + 1
        record.best = min(record.best, error)
        enough = recipe.stop_below is not None and error <= recipe.stop_below
        stuck = recipe.stop_patience is not None and record.without_improvement >= recipe.stop_patience
        if (enough or stuck) and self.trainer.step < self.trainer.total:
            self.stop(index)

    def stop(self, index: int) -> None:
        """Stop a seed and keep its current weights."""
        tensors = self.trainer.program.tensors(index)
        self.records[index].stopped = True
        self.records[index].final = {name: tensor.detach().clone() for name, tensor in tensors.items()}

    def weights(self, index: int) -> dict[str, Tensor]:
        """A seed's weights: those it stopped with, or the current ones."""
        return self.records[index].final or self.trainer.program.tensors(index)
