"""The mean squared error."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from recombine.training.losses.loss import LOSSES, Loss


@LOSSES.register("mse")
class MSE(Loss):
    """(output − target)², averaged over the entries of an example."""

    def __init__(self) -> None: ...

    def per_example(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().flatten(1).mean(1)

    def __call__(self, outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        return F.mse_loss(outputs, targets) if weights is None else super().__call__(outputs, targets, weights)

    def of_seeds(self, outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        if weights is not None:
            return super().of_seeds(outputs, targets, weights)
        distance = (outputs - targets).flatten(
            1
        )  # a single pass, because the mean of squares takes a tenth of an MLP's step
        return torch.linalg.vecdot(distance, distance) / distance.shape[1]
