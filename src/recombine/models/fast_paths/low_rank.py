"""Low-rank maps with a hand-written gradient, which passes over memory less often than autograd."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.models.forced_rendering.renderer import SHORTEST


class _LowRank(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, strengths: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        squares = [torch.linalg.vecdot(v, v).clamp_(min=SHORTEST**2) for v in (rows, columns)]
        scale = squares[0].rsqrt() * squares[1].rsqrt()
        weights = strengths * scale
        ctx.save_for_backward(rows, columns, weights, scale, *squares)
        return (rows * weights.unsqueeze(-1)).mT @ columns

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows, columns, weights, scale, *squares = ctx.saved_tensors
        (gradient,) = gradients
        along_rows, along_columns = columns @ gradient.mT, rows @ gradient
        of_weights = torch.linalg.vecdot(rows, along_rows)
        pull = -(of_weights * weights)  # component along the vector, which normalization removes
        found = []
        for vectors, along, square in ((rows, along_rows, squares[0]), (columns, along_columns, squares[1])):
            long = square > SHORTEST**2
            found.append(along.mul_(weights.unsqueeze(-1)).addcmul_(vectors, (pull / square * long).unsqueeze(-1)))
        return of_weights * scale, found[0], found[1]


def quick_low_rank(
    strengths: Float[Tensor, "*shape mode"],
    rows: Float[Tensor, "*shape mode row"],
    columns: Float[Tensor, "*shape mode column"],
) -> Float[Tensor, "*shape row column"]:
    """`recombine.models.forced_rendering.renderer.low_rank`."""
    return _LowRank.apply(strengths, rows, columns)  # pyright: ignore[reportReturnType]
