"""Schedules of the weights of loss terms."""

from __future__ import annotations

from torch import nn

from recombine.core.errors import InputError
from recombine.training.loss_terms.term import Batch


def risen(weight: float, warmup: float, batch: Batch | None) -> float:
    """The weight, rising linearly from 0 over the first `warmup` of training; constant without a batch."""
    return weight * (min(1.0, batch.progress / warmup) if batch is not None and warmup else 1.0)


def factor_sizes(model: nn.Module, term: str) -> list[int]:
    """Lengths of the blocks of the code, one per factor, of a model that was built from a task.

    Raises:
        InputError: If the code does not have one entry per factor value.
    """
    shapes = getattr(model, "shapes", None)
    if shapes is None or sum(shapes.factor_sizes) != shapes.code_size:
        raise InputError(
            f"The {term} penalty requires a decoder that was built from a task, and a code with one entry per factor "
            "value, such as onehot or bump, so that each entry belongs to one factor.",
            f"training.terms.{term}",
        )
    return list(shapes.factor_sizes)
