"""The penalty on pixels that attend to several slots."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.registry import NonNegative, Share
from recombine.models.decoders.cross_attention import CrossAttention
from recombine.training.loss_terms.schedule import risen
from recombine.training.loss_terms.term import TERMS, Batch


@TERMS.register("interaction")
class Interaction:
    """α · mean over pixels of Σ_{i<j} A_i A_j, A_i the attention of a pixel to slot i (Brady et al. 2024).

    The attention is averaged over heads and layers and computed by a second pass of the decoder. Range
    [0, α(1 − 1/K)/2] for K slots; 0 if every pixel attends to a single slot.

    Args:
        weight: α.
        warmup: Share of training over which the weight rises from 0.
    """

    name = "interaction"

    def __init__(self, weight: NonNegative = 0.05, warmup: Share = 0.1) -> None:
        self.weight, self.warmup = weight, warmup

    def __call__(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        if not isinstance(model, CrossAttention):
            raise InputError(
                "The interaction penalty requires attention. Use decoder.kind=cross_attention, or another penalty.",
                "training.terms.interaction",
            )
        shares = model.attention(batch.inputs).mean((1, 2))
        return risen(self.weight, self.warmup, batch) * pairwise_products(shares).mean()


def pairwise_products(parts: Float[Tensor, "*shape part"]) -> Float[Tensor, "*shape"]:
    """Σ_{i<j} a_i a_j over the last axis."""
    return (parts.sum(-1).square() - parts.square().sum(-1)) / 2
