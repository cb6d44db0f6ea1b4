"""Stochastic gradient descent with optional momentum."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from recombine.core.registry import NonNegative
from recombine.training.optimizers.optimizer import OPTIMIZERS, Decay, OptimizerFactory, can_fuse


@OPTIMIZERS.register("sgd")
class SGD(OptimizerFactory):
    """torch.optim.SGD.

    Args:
        momentum: Share of the previous update that is added to the next one.
        weight_decay: Weight of half the squared norm, which is added to the loss.
        nesterov: Whether to use Nesterov momentum; needs a momentum above 0.
    """

    elementwise = True

    def __init__(self, momentum: Decay = 0.0, weight_decay: NonNegative = 0.0, nesterov: bool = False) -> None:
        self.momentum, self.weight_decay, self.nesterov = momentum, weight_decay, nesterov and momentum > 0

    def __call__(self, parameters: Sequence[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            parameters,
            lr=learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
            fused=can_fuse(parameters),
        )
