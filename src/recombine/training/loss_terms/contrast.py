"""The compositional contrast."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.registry import Count, NonNegative, Share
from recombine.training.loss_terms.interaction import pairwise_products
from recombine.training.loss_terms.schedule import factor_sizes, risen
from recombine.training.loss_terms.term import TERMS, Batch

STEP = 1e-2  # of the finite differences


@TERMS.register("contrast")
class Contrast:
    """weight · Σ_p Σ_{i<j} ‖∂x_p/∂z_i‖ · ‖∂x_p/∂z_j‖, mean over examples (Brady et al. 2023).

    It is 0 if every pixel depends on the code block of one factor only. This does not hold for a bump, for which the
    penalty is a negative control. The Jacobian is computed by central differences, with two forward passes per entry of
    the code, and therefore only for a few examples of a batch.

    Args:
        weight: Weight of the penalty.
        examples: Number of examples of each batch, taken from its start.
        warmup: Share of training over which the weight rises from 0.
    """

    name = "contrast"

    def __init__(self, weight: NonNegative = 1e-3, examples: Count = 2, warmup: Share = 0.1) -> None:
        self.weight, self.examples, self.warmup = weight, examples, warmup

    def __call__(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        sizes = factor_sizes(model, self.name)
        codes = batch.inputs[: self.examples]
        steps = STEP * torch.eye(codes.shape[-1], dtype=codes.dtype, device=codes.device)
        moved = (codes.unsqueeze(1) + torch.cat([steps, -steps])).flatten(
            0, 1
        )  # every entry of the code, in both directions
        ahead, behind = model(moved).flatten(1).unflatten(0, (len(codes), 2, -1)).unbind(1)
        jacobian = ((ahead - behind) / (2 * STEP)).mT
        tiny = torch.finfo(jacobian.dtype).tiny  # a norm has no derivative at 0
        norms = [(part.square().sum(-1) + tiny).sqrt() for part in jacobian.split(sizes, dim=-1)]
        contrast = pairwise_products(torch.stack(norms, dim=-1)).sum(-1).mean()
        return risen(self.weight, self.warmup, batch) * contrast
