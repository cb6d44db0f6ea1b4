"""Gradients written by hand, for training several seeds together: fewer passes over memory than autograd makes.

Each function gives what its plain namesake gives. They have first derivatives in reverse mode only, which is all that
training needs.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.decoders.renderer import SHORTEST


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
        pull = -(of_weights * weights)  # back to where the length does not change
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
    """`recombine.decoders.renderer.low_rank`."""
    return _LowRank.apply(strengths, rows, columns)  # pyright: ignore[reportReturnType]


class _PReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(values, slope)
        return torch.ops.aten._prelu_kernel(values, slope)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        values, slope = ctx.saved_tensors
        (gradient,) = gradients
        above = torch.ops.aten.threshold_backward(gradient, values, 0)
        below = gradient - above
        of_slope = (values * below).sum(0)
        return above.addcmul_(below, slope), of_slope


def quick_prelu(
    image: Float[Tensor, "batch channel row column"], slope: Float[Tensor, " channel"]
) -> Float[Tensor, "batch channel row column"]:
    """`torch.nn.functional.prelu`, whose own backward pass is several times slower, of an image in channels-last order.

    The image is seen as a matrix with whole image rows as its rows, so that the slopes, too, are long vectors.
    """
    batch, channels, rows, columns = image.shape
    matrix = image.permute(0, 2, 3, 1).reshape(batch * rows, columns * channels)
    found = _PReLU.apply(matrix, slope.to(image.dtype).repeat(columns))
    return found.view(batch, rows, columns, channels).permute(0, 3, 1, 2)  # pyright: ignore
