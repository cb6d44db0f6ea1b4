"""Gradients written by hand, for training: fewer passes over memory than autograd makes.

Each function gives what its plain counterpart gives. They have first derivatives in reverse mode only, which is all
that training needs.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

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
    """`recombine.models.forced_rendering.renderer.low_rank`."""
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


class _Convolutions(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: Tensor, *parameters: Tensor) -> Tensor:
        *kernels, last = parameters[::2]
        *biases, last_bias = parameters[1::2]
        units = [image]
        for kernel, bias in zip(kernels, biases):
            if _doubles(kernel):
                units.append(F.conv_transpose2d(units[-1], kernel, bias, stride=2, padding=1).relu_())
            else:
                units.append(F.conv2d(units[-1], kernel, bias, padding=1).relu_())
        ctx.save_for_backward(*units, *parameters[::2])
        return _to_few_channels(units[-1], last) + last_bias[:, None, None]

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] (the decorator hides the names)
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor, ...]:
        (gradient,) = gradients
        layers = len(ctx.saved_tensors) // 2
        units, (*kernels, last) = ctx.saved_tensors[:layers], ctx.saved_tensors[layers:]
        of_last_bias = torch.stack([channel.sum() for channel in gradient.unbind(1)])
        gradient, of_last = _from_few_channels(gradient, units[-1], last)
        found = [of_last_bias, of_last]  # of the parameters, from the last to the first
        for kernel, below, above in zip(kernels[::-1], units[-2::-1], units[:0:-1]):
            gradient = torch.ops.aten.threshold_backward.grad_input(gradient, above, 0, grad_input=gradient)
            found.append(gradient.sum((2, 3)).sum(0))  # quicker than all at once
            doubles = _doubles(kernel)
            stride = [2, 2] if doubles else [1, 1]
            gradient, of_kernel, _ = torch.ops.aten.convolution_backward(
                gradient, below, kernel, None, stride, [1, 1], [1, 1], doubles, [0, 0], 1, [True, True, False]
            )
            found.append(of_kernel)
        return gradient, *found[::-1]


def _doubles(kernel: Tensor) -> bool:
    return kernel.shape[-1] == 4


# One or three channels are too few to keep a convolution busy. So every pixel's units are multiplied with the nine taps
# of each channel's kernel in one matrix product, and the products are added up where they belong in an image with a
# border of one pixel.


def _taps(kernel: Tensor) -> Float[Tensor, "tap_channel unit"]:
    """A pixel's share in the nine pixels of the result around it, from the upper left one to the lower right one."""
    return kernel.flip(2, 3).permute(2, 3, 0, 1).flatten(0, 2)


def _pixels(image: Tensor) -> Float[Tensor, "pixel unit"]:
    return image.permute(0, 2, 3, 1).flatten(0, 2)


def _to_few_channels(image: Tensor, kernel: Tensor) -> Float[Tensor, "batch channel row column"]:
    batch, _, rows, columns = image.shape
    channels = len(kernel)
    shares = torch.mm(_taps(kernel), _pixels(image).T).view(9, channels, batch, rows, columns)
    bordered = shares.new_zeros(channels, batch, rows + 2, columns + 2)
    for tap, share in enumerate(shares):
        i, j = divmod(tap, 3)
        bordered[..., i : i + rows, j : j + columns].add_(share)
    return bordered[..., 1:-1, 1:-1].transpose(0, 1)


def _from_few_channels(gradient: Tensor, image: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the image and of the kernel."""
    batch, units, rows, columns = image.shape
    channels = len(kernel)
    bordered = F.pad(gradient, (1, 1, 1, 1))
    around = bordered.unfold(2, rows, 1).unfold(3, columns, 1)  # batch, channel, tap's row, tap's column, row, column
    around = around.permute(2, 3, 1, 0, 4, 5).reshape(9 * channels, -1)
    of_image = torch.mm(around.T, _taps(kernel)).view(batch, rows, columns, units).permute(0, 3, 1, 2)
    of_taps = torch.mm(around, _pixels(image)).view(3, 3, channels, units)
    return of_image, of_taps.flip(0, 1).permute(2, 3, 0, 1)


def quick_convolutions(
    image: Float[Tensor, "batch unit row column"], *parameters: Tensor
) -> Float[Tensor, "batch channel row2 column2"]:
    """Convolutions with ReLU after each, then one to a few channels.

    Args:
        image: What goes into the first.
        parameters: Kernel and bias of each. A kernel of 4 × 4 doubles the sides (transposed, stride 2), one of 3 × 3
            keeps them.
    """
    return _Convolutions.apply(image, *parameters)  # pyright: ignore[reportReturnType]
