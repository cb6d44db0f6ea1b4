"""The training objective: a loss plus loss terms."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.training.loss_terms.term import Batch, LossTerm
from recombine.training.losses import Loss


class Objective(nn.Module):
    """Loss of one batch under one model, with one column for the total, the loss itself and each term."""

    def __init__(self, model: nn.Module, loss: Loss, terms: Sequence[LossTerm]) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.terms = tuple(terms)

    @property
    def names(self) -> list[str]:
        return ["loss", self.loss.name, *(term.name for term in self.terms)]

    def forward(
        self,
        inputs: Tensor,
        targets: Tensor,
        progress: float,
        outputs: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Float[Tensor, " column"]:
        """Compute the columns. The model is not called if its outputs are given."""
        if outputs is None:
            outputs = self.model(inputs)
        assert outputs is not None
        error = self.loss(outputs, targets, weights)
        batch = Batch(inputs, targets, outputs, progress)
        extra = [_number(term.name, term(self.model, batch)) for term in self.terms]
        total = torch.stack([error, *extra]).sum() if extra else error
        return torch.stack([total, error, *extra])


def _number(name: str, value: object) -> Float[Tensor, ""]:
    if not isinstance(value, Tensor) or value.ndim:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"The loss term {name!r} must return a single number as a tensor. Got {got}.")
    return value
