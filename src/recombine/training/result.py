"""The result of training one seed."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.task import Task
from recombine.models.adapted import class_name
from recombine.scoring.scores import ID, OOD, Scores
from recombine.training.recipe import Training


@dataclass(repr=False)
class TrainingResult:
    """A trained model with its task, recipe and history.

    Attributes:
        model: The trained network; a `Decoder` is in evaluation mode.
        task: The task it was trained on.
        seed: The seed.
        training: The recipe.
        history: One row per evaluation: step, learning_rate, mean loss (and its parts) since the last one, and the
            ID and OOD error estimated on `training.evaluate_cells` cells each.
        losses: Loss of every step, one column per name in `loss_names`.
        steps: Steps done.
        stopped_early: Whether an early stop ended it.
        seconds: Time spent training in this process (all seeds of a batch together).
        scores: The scores of every cell of the grid.
    """

    model: nn.Module
    task: Task
    seed: int
    training: Training
    history: list[dict[str, float | int]]
    losses: Float[Tensor, "step column"]
    loss_names: list[str]
    steps: int
    stopped_early: bool
    seconds: float
    scores: Scores

    def __repr__(self) -> str:
        """One line: model, seed, steps and the mean errors of ID and OOD cells."""
        mse, split = self.scores.columns["mse"], self.scores.split
        errors = [f"{name} error {mse[split == key].mean():.2g}" for name, key in (("ID", ID), ("OOD", OOD))]
        early = " (stopped early)" if self.stopped_early else ""
        facts = [f"seed {self.seed}", f"{self.steps} steps{early}", *errors]
        return f"{type(self).__name__}({class_name(self.model)}, {', '.join(facts)})"
