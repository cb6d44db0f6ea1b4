"""Loss terms that a recipe can name. The penalties that make rendered factors simple (Liang et al. 2025, Sec. 5).

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
from recombine.core.registry import Family, NonNegative, Share
from recombine.models.forced_rendering.renderer import FactorRenderer, entropy
from recombine.training.objective import Batch

TERMS = Family("loss term")


class Penalty(ABC):
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
                f"The {self.name} penalty needs a FactorRenderer in the model, for example decoder.kind=rendered."
            )
        weight = self.weight if batch is None else self.weight_at(batch.progress)
        return weight * torch.stack([self.of(renderer) for renderer in renderers]).sum()

    @abstractmethod
    def of(self, renderer: FactorRenderer) -> Float[Tensor, ""]: ...


@TERMS.register("entropy")
class Entropy(Penalty):
    """μ₁ Σ_γ −Σ_n λ̃⁽ⁿ⁾ ln λ̃⁽ⁿ⁾ with λ̃⁽ⁿ⁾ = λ⁽ⁿ⁾² / Σ_m λ⁽ᵐ⁾², summed over all factor values γ: few modes, low rank.

    Args:
        weight: μ₁.
        warmup, anneal_from: See Penalty.
    """

    name = "entropy"

    def __init__(self, weight: NonNegative = 0.1, warmup: Share = 0.0, anneal_from: Share = 1.0) -> None:
        super().__init__(weight, warmup, anneal_from)

    def of(self, renderer: FactorRenderer) -> Float[Tensor, ""]:
        return entropy(renderer.mode_shares()).sum()


@TERMS.register("variance")
class Variance(Penalty):
    """μ₂ Σ_γ Σ_n [Var(v⁽ⁿ⁾) + Var(u⁽ⁿ⁾)], the variance over the entries of the raw vectors: smooth, banded modes.

    Args:
        weight: μ₂.
        warmup, anneal_from: See Penalty.
    """

    name = "variance"

    def __init__(self, weight: NonNegative = 0.01, warmup: Share = 0.0, anneal_from: Share = 1.0) -> None:
        super().__init__(weight, warmup, anneal_from)

    def of(self, renderer: FactorRenderer) -> Float[Tensor, ""]:
        return _variances(renderer.rows).sum() + _variances(renderer.columns).sum()


def _variances(vectors: Float[Tensor, "*shape entry"]) -> Float[Tensor, "*shape"]:
    """The unbiased variance over the entries; several times quicker than Tensor.var, which is not vectorized.

    A single entry does not vary: 0. The mean counts as a constant: the distances from it sum to 0, so that nothing
    flows back through it.
    """
    centred = vectors - vectors.detach().mean(-1, keepdim=True)
    return centred.square().sum(-1) / max(vectors.shape[-1] - 1, 1)
