"""Penalties that make factors simple, for every `FactorRenderer` or `FactorComposer` inside any model.

They work in any training loop:

    loss = mse + Entropy(0.1)(model) + Variance(0.01)(model)             # Liang et al. 2025, Sec. 5
    loss = mse + Composition()(model)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.models.forced_rendering.renderer import FactorRenderer
from recombine.training.loss_terms.term import Batch

M = TypeVar("M", bound=nn.Module)


class ModulePenalty(ABC, Generic[M]):
    """A weighted sum over all modules of one class inside a model.

    The weight rises linearly from 0 over the first `warmup` of training and falls linearly from `anneal_from` to 0 at
    the end. Outside a training loop (without a batch) it is `weight`.

    Attributes:
        acts_on: The class of the modules.
        decoder: A kind of decoder that contains such a module.
    """

    name: ClassVar[str]
    acts_on: ClassVar[type[nn.Module]]
    decoder: ClassVar[str]

    def __init__(self, weight: float, warmup: float, anneal_from: float) -> None:
        self.weight, self.warmup, self.anneal_from = weight, warmup, anneal_from

    def weight_at(self, progress: float) -> float:
        rise = min(1.0, progress / self.warmup) if self.warmup else 1.0
        fall = min(1.0, (1 - progress) / (1 - self.anneal_from)) if self.anneal_from < 1 else 1.0
        return self.weight * rise * fall

    def __call__(self, model: nn.Module, batch: Batch | None = None) -> Float[Tensor, ""]:
        modules = [module for module in model.modules() if isinstance(module, self.acts_on)]
        if not modules:
            raise InputError(
                f"The {self.name} penalty requires a {self.acts_on.__name__} in the model, for example "
                f"decoder.kind={self.decoder}.",
                f"training.terms.{self.name}",
            )
        weight = self.weight if batch is None else self.weight_at(batch.progress)
        progress = 0.0 if batch is None else batch.progress
        return weight * torch.stack([self.of(cast("M", module), progress) for module in modules]).sum()

    @abstractmethod
    def of(self, module: M, progress: float) -> Float[Tensor, ""]: ...


class RendererPenalty(ModulePenalty[FactorRenderer]):
    """A penalty on every `FactorRenderer`."""

    acts_on = FactorRenderer
    decoder = "rendered"
