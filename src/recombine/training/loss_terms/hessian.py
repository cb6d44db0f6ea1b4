"""The Hessian penalty."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.registry import NonNegative, Positive, Share
from recombine.training.loss_terms.schedule import factor_sizes, risen
from recombine.training.loss_terms.term import TERMS, Batch

STEPS = 10**9  # identifies a training step by its rounded progress


@TERMS.register("hessian")
class Hessian:
    """Variance of second differences of the output along directions ±d_1 ± d_2 …, one sign per factor (Peebles 2020).

    With d_k a random ±1 step of factor k's block, [x(z + εv) − 2x(z) + x(z − εv)] / ε² for two patterns of signs v
    differs only by the cross terms d_iᵀH_ij d_j of two factors. The penalty is therefore 0 for a sum over factors: it
    encourages additivity, which does not hold for a bump. Published with one latent unit per factor; here the mean over
    pixels replaces the maximum.

    Args:
        weight: Weight of the penalty.
        epsilon: ε.
        warmup: Share of training over which the weight rises from 0.
    """

    name = "hessian"

    def __init__(self, weight: NonNegative = 0.1, epsilon: Positive = 0.1, warmup: Share = 0.1) -> None:
        self.weight, self.epsilon, self.warmup = weight, epsilon, warmup

    def __call__(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        sizes = factor_sizes(model, self.name)
        draws = np.random.default_rng(int(batch.progress * STEPS))  # stateless, so that a resumed run draws the same
        steps = [torch.as_tensor(draws.choice((-1.0, 1.0), size), dtype=batch.inputs.dtype) for size in sizes]
        signs = draws.choice((-1.0, 1.0), len(sizes))
        signs[-1] *= -1 if (signs == signs[0]).all() and len(sizes) > 1 else 1  # otherwise both differences are equal
        plain, turned = (
            self.epsilon * torch.cat([sign * step for sign, step in zip(pattern, steps)]).to(batch.inputs.device)
            for pattern in (np.ones(len(sizes)), signs)
        )
        seconds = [
            (model(batch.inputs + move) - 2 * batch.outputs + model(batch.inputs - move)) for move in (plain, turned)
        ]
        variance = (seconds[0] - seconds[1]).square() / 2 / self.epsilon**4  # unbiased, of two numbers
        return risen(self.weight, self.warmup, batch) * variance.mean()
