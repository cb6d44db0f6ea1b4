"""The Huber loss: squared near the target, absolute far from it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from recombine.core.registry import Positive
from recombine.training.losses.loss import LOSSES, Loss


@LOSSES.register("huber")
class Huber(Loss):
    """½ d² for |d| ≤ δ and δ (|d| − ½ δ) beyond, with d = output − target, averaged over the entries of an example.

    Args:
        delta: δ.
    """

    def __init__(self, delta: Positive = 1.0) -> None:
        self.delta = delta

    def per_example(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.huber_loss(outputs, targets, reduction="none", delta=self.delta).flatten(1).mean(1)
