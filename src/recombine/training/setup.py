"""The settings that all seeds of a training run share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recombine.core.devices import resolve
from recombine.core.errors import InputError
from recombine.core.task import Task
from recombine.training.callbacks import Callback
from recombine.training.loss_terms import LossTerm, check_terms
from recombine.training.losses import Loss, as_loss
from recombine.training.optimizers import OptimizerFactory
from recombine.training.recipe import Training, recipe
from recombine.training.training_set import check_examples

MakeOptimizer = OptimizerFactory | Callable[..., torch.optim.Optimizer]
LossFunction = Loss | Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Setup:
    """A task and how to learn it. Create one with `Setup.of`, which checks that its parts fit together."""

    task: Task
    training: Training
    loss: Loss
    optimizer: MakeOptimizer
    terms: tuple[LossTerm, ...]
    device: torch.device
    callbacks: tuple[Callback, ...] = ()

    @classmethod
    def of(
        cls,
        task: Task,
        training: Training | str | None = None,
        *,
        loss: LossFunction | None = None,
        optimizer: MakeOptimizer | None = None,
        terms: Sequence[LossTerm] = (),
        device: str | torch.device = "auto",
        callbacks: Sequence[Callback] = (),
    ) -> Setup:
        """Use the recipe's loss, optimizer and terms unless others are given."""
        chosen = recipe_of(training)
        task.encoding.check()
        check_examples(task, chosen)
        if optimizer is not None and not callable(optimizer):
            raise InputError(
                f"An optimizer must be a function (parameters, learning_rate) → torch optimizer. Got {optimizer!r}. "
                "Set the kind of optimizer in the recipe: training=rc.recipe(optimizer={'kind': 'sgd'}).",
                "optimizer",
            )
        made = chosen.loss_function() if loss is None else as_loss(loss)
        all_terms = (*chosen.loss_terms(), *terms)
        check_terms(all_terms, made.name)
        return cls(
            task=task,
            training=chosen,
            loss=made,
            optimizer=chosen.optimizer_factory() if optimizer is None else optimizer,
            terms=all_terms,
            device=resolve(device),
            callbacks=tuple(callbacks),
        )

    @property
    def can_stack(self) -> bool:
        """Whether the optimizer keeps seeds separate that are stacked into one program."""
        return isinstance(self.optimizer, OptimizerFactory) and self.optimizer.elementwise


def recipe_of(training: Training | str | None) -> Training:
    """Return a recipe unchanged or look it up by name; the default is the paper's."""
    if isinstance(training, Training):
        return training
    if training is not None and not isinstance(training, str):
        raise InputError(f"training must be a recipe or the name of one. Got {training!r} instead.", "training")
    return recipe() if training is None else recipe(training)
