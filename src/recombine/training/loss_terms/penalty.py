"""Penalties that make rendered factors simple (Liang et al. 2025, Sec. 5).

They act on every `FactorRenderer` inside the model, ours or anyone's, and work in any training loop:

    loss = mse + Entropy(0.1)(model) + Variance(0.01)(model)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.models.forced_rendering.renderer import FactorRenderer
from recombine.training.loss_terms.term import Batch


class RendererPenalty(ABC):
    """A weighted sum over all renderers of a model.

    The weight rises linearly from 0 over the first `warmup` of training and, from `anneal_from` on, falls linearly to
    0 at the end. Outside a training loop (no batch given) it is simply `weight`.
    """

    name: ClassVar[str]

    def __init__(self, weight: float, warmup: float, anneal_from: float) -> None:
        self.weight, self.warmup, self.anneal_from = weight, warmup, anneal_from

    def weight_at(self, progress: float) -> float:
        rise = min(1.0, progress / self.warmup) if self.warmup else 1.0
        fall = min(1.0, (1 - progress) / (1 - self.anneal_from)) if self.anneal_from < 1 else 1.0
        return self.weight * rise * fall

    def __call__(self, model: nn.Module, batch: Batch | None = None) -> Float[Tensor, ""]:
        renderers = [module for module in model.modules() if isinstance(module, FactorRenderer)]
        if not renderers:
            raise InputError(
                f"The {self.name} penalty needs a FactorRenderer in the model, for example decoder.kind=rendered.",
                f"training.terms.{self.name}",
            )
        weight = self.weight if batch is None else self.weight_at(batch.progress)
        return weight * torch.stack([self.of(renderer) for renderer in renderers]).sum()

    @abstractmethod
    def of(self, renderer: FactorRenderer) -> Float[Tensor, ""]: ...
