"""The penalty on the entropy of a renderer's modes."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from recombine.core.registry import NonNegative, Share
from recombine.models.forced_rendering.renderer import FactorRenderer, entropy
from recombine.training.loss_terms.penalty import RendererPenalty
from recombine.training.loss_terms.term import TERMS


@TERMS.register("entropy")
class Entropy(RendererPenalty):
    """μ₁ Σ_γ −Σ_n λ̃⁽ⁿ⁾ ln λ̃⁽ⁿ⁾ with λ̃⁽ⁿ⁾ = λ⁽ⁿ⁾² / Σ_m λ⁽ᵐ⁾², summed over all factor values γ: few modes, low rank.

    Args:
        weight: μ₁.
        warmup, anneal_from: See ModulePenalty.
    """

    name = "entropy"

    def __init__(self, weight: NonNegative = 0.1, warmup: Share = 0.0, anneal_from: Share = 1.0) -> None:
        super().__init__(weight, warmup, anneal_from)

    def of(self, module: FactorRenderer, progress: float) -> Float[Tensor, ""]:
        return entropy(module.mode_shares()).sum()
