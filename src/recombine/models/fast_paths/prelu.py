"""PReLU with a hand-written gradient, several times faster than torch's."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from recombine.models.fast_paths.torch_internals import relu_backward


class _PReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(values, slope)
        return F.prelu(values, slope)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        values, slope = ctx.saved_tensors
        (gradient,) = gradients
        above = relu_backward(gradient, values, 0)
        below = gradient - above
        of_slope = (values * below).sum(0)
        return above.addcmul_(below, slope), of_slope


def quick_prelu(
    image: Float[Tensor, "batch channel row column"], slope: Float[Tensor, " channel"]
) -> Float[Tensor, "batch channel row column"]:
    """`torch.nn.functional.prelu` for an image in channels-last order; torch's own backward pass is several times
    slower.

    The image is viewed as a matrix whose rows are image rows, so that the slopes are long vectors, too.
    """
    batch, channels, rows, columns = image.shape
    matrix = image.permute(0, 2, 3, 1).reshape(batch * rows, columns * channels)
    found = _PReLU.apply(matrix, slope.to(image.dtype).repeat(columns))
    return found.view(batch, rows, columns, channels).permute(0, 3, 1, 2)  # pyright: ignore
