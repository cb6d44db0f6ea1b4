"""The mean absolute error."""

from __future__ import annotations

from torch import Tensor

from recombine.training.losses.loss import LOSSES, Loss


@LOSSES.register("l1")
class L1(Loss):
    """|output − target|, averaged over the entries of an example."""

    def __init__(self) -> None: ...

    def per_example(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).abs().flatten(1).mean(1)
