"""Adam, with weight decay added to the gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from recombine.core.registry import NonNegative
from recombine.training.optimizers.optimizer import OPTIMIZERS, Decay, OptimizerFactory, can_fuse


@OPTIMIZERS.register("adam")
class Adam(OptimizerFactory):
    """torch.optim.Adam.

    Args:
        weight_decay: Weight of half the squared norm, which is added to the loss.
        beta1, beta2: Decay rates of the running averages of gradients and of their squares.
    """

    elementwise = True

    def __init__(self, weight_decay: NonNegative = 0.0, beta1: Decay = 0.9, beta2: Decay = 0.999) -> None:
        self.weight_decay, self.betas = weight_decay, (beta1, beta2)

    def __call__(self, parameters: Sequence[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
        return torch.optim.Adam(
            parameters,
            lr=learning_rate,
            betas=self.betas,
            weight_decay=self.weight_decay,
            fused=can_fuse(parameters),
        )
