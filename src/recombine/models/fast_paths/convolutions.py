"""A stack of convolutions with a hand-written gradient, which passes over memory less often than autograd.

It has first derivatives in reverse mode only, which is all that training needs.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from recombine.models.fast_paths.torch_internals import convolution_backward, relu_backward_into


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
        found = [of_last_bias, of_last]  # gradients of the parameters, from last to first
        for kernel, below, above in zip(kernels[::-1], units[-2::-1], units[:0:-1]):
            gradient = relu_backward_into(gradient, above, 0, grad_input=gradient)
            found.append(gradient.sum((2, 3)).sum(0))  # faster than a single sum
            doubles = _doubles(kernel)
            stride = [2, 2] if doubles else [1, 1]
            gradient, of_kernel, _ = convolution_backward(
                gradient, below, kernel, None, stride, [1, 1], [1, 1], doubles, [0, 0], 1, [True, True, False]
            )
            found.append(of_kernel)
        return gradient, *found[::-1]


def _doubles(kernel: Tensor) -> bool:
    return kernel.shape[-1] == 4


# One or three channels are too few to keep a convolution busy. The units of every pixel are therefore multiplied with
# the nine taps of each channel's kernel in one matrix product, and the products are added at their positions in an
# image
# with a border of one pixel.


def _taps(kernel: Tensor) -> Float[Tensor, "tap_channel unit"]:
    """A pixel's contribution to the nine pixels of the result around it, from the upper left to the lower right."""
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
        image: Input of the first convolution.
        parameters: Kernel and bias of each convolution. A 4 × 4 kernel doubles the sides (transposed, stride 2), a
            3 × 3 kernel keeps them.
    """
    return _Convolutions.apply(image, *parameters)  # pyright: ignore[reportReturnType]
