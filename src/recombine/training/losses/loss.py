"""The interface of losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.registry import Family

LOSSES = Family("loss")


class Loss(ABC):
    """A distance between outputs and targets, defined for each example. Training minimizes its mean.

        @LOSSES.register("cosine")
        class Cosine(Loss):
            def per_example(self, outputs, targets):
                return 1 - torch.cosine_similarity(outputs.flatten(1), targets.flatten(1))

    Attributes:
        name: Name under which its value is recorded.
    """

    config: dict[str, Any]
    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """The name under which the loss is recorded."""
        return self.kind

    @abstractmethod
    def per_example(
        self, outputs: Float[Tensor, "batch ..."], targets: Float[Tensor, "batch ..."]
    ) -> Float[Tensor, " batch"]:
        """The loss of each example."""

    def __call__(
        self, outputs: Tensor, targets: Tensor, weights: Float[Tensor, " batch"] | None = None
    ) -> Float[Tensor, ""]:
        """The mean over a batch, with each example multiplied by its weight."""
        each = self.per_example(outputs, targets)
        return each.mean() if weights is None else (weights * each).mean()

    def of_seeds(
        self,
        outputs: Float[Tensor, "seed batch ..."],
        targets: Float[Tensor, "seed batch ..."],
        weights: Float[Tensor, "seed batch"] | None = None,
    ) -> Float[Tensor, " seed"]:
        """The mean of each seed's batch."""
        each = self.per_example(outputs.flatten(0, 1), targets.flatten(0, 1)).unflatten(0, outputs.shape[:2])
        return each.mean(1) if weights is None else (weights * each).mean(1)

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise InputError if the loss is not defined for such outputs or targets."""
        return


class FunctionLoss(Loss):
    """A loss given as a function: (outputs, targets) → one number."""

    kind = "function"

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.function = function

    @property
    def name(self) -> str:
        given = getattr(self.function, "name", None) or getattr(self.function, "__name__", "")
        return given if isinstance(given, str) and given.isidentifier() else "error"

    def per_example(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.stack([self(o, t) for o, t in zip(outputs.split(1), targets.split(1))])

    def __call__(self, outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        if weights is not None:
            return (weights * self.per_example(outputs, targets)).mean()
        found = self.function(outputs, targets)
        if not isinstance(found, Tensor) or found.ndim:
            got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise InputError(f"The loss {self.name!r} must return a single number as a tensor. Got {got}.", "loss")
        return found

    def of_seeds(self, outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        own = [None] * len(outputs) if weights is None else weights
        return torch.stack([self(o, t, w) for o, t, w in zip(outputs, targets, own)])


def as_loss(given: Loss | Callable[[Tensor, Tensor], Tensor]) -> Loss:
    """Return a loss unchanged, or wrap a function."""
    if isinstance(given, Loss):
        return given
    if not callable(given):
        raise InputError(
            f"A loss must be a function (outputs, targets) → number. Got {given!r}. Set the kind of loss in the "
            "recipe: training=rc.recipe(loss={'kind': 'l1'}).",
            "loss",
        )
    return FunctionLoss(given)
