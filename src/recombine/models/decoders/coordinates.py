"""Decoders that tile the code over the image and append each pixel's coordinates."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder

KERNEL = 5


class Coordinates(nn.Module):
    """A convolution over the tiled code and the coordinates −1 … 1 of each pixel: (batch, code) → an image.

    Away from the border, the tiled code is constant, so a 1×1 kernel needs it once per image instead of once per pixel.
    """

    grid: Tensor

    def __init__(self, code_size: int, sides: list[int], width: int, kernel: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(code_size + 2, width, kernel, padding=kernel // 2)
        axes = [torch.linspace(-1, 1, side) for side in sides]
        self.register_buffer("grid", torch.stack(torch.meshgrid(*axes, indexing="ij")), persistent=False)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch channel row column"]:
        weight, bias = self.convolution.weight, self.convolution.bias
        if weight.shape[-1] == 1:
            assert bias is not None
            of_code = code @ weight[:, :-2, 0, 0].T + bias
            of_place = torch.einsum("oc,crk->ork", weight[:, -2:, 0, 0], self.grid.to(code))
            return of_code[..., None, None] + of_place
        tiled = code[..., None, None].expand(-1, -1, *self.grid.shape[1:])
        return self.convolution(torch.cat([tiled, self.grid.to(code).expand(len(code), -1, -1, -1)], dim=1))


def _stack(first: nn.Module, widths: list[int], kernel: int) -> nn.Sequential:
    """The first layer, and a convolution between each pair of widths, with ReLU after each."""
    later = [nn.Conv2d(a, b, kernel, padding=kernel // 2) for a, b in pairwise(widths)]
    layers = (nn.Sequential(OrderedDict(conv=conv, act=nn.ReLU())) for conv in (first, *later))
    return nn.Sequential(OrderedDict((str(i), layer) for i, layer in enumerate(layers, 1)))


@DECODERS.register("coordconv")
class CoordConv(Decoder):
    """The CoordConv painter (Liu et al. 2018): the code and the pixel's coordinates through 1×1 convolutions.

    Channels: width, width, 2·width, 2·width, ReLU after each, then the image. No pixel sees its neighbours, so the
    network is a function of code and position, and it does not matter how often training lit a pixel.

    Args:
        shapes: The task, or its shapes.
        width: Channels of the first two layers; the published painter has 32.
    """

    def __init__(self, shapes: Task | Shapes, width: Count = 32) -> None:
        super().__init__(shapes)
        channels, *sides = self.image_axes
        widths = [width, width, 2 * width, 2 * width]
        self.layers = _stack(Coordinates(self.shapes.code_size, sides, width, 1), widths, 1)
        self.out = nn.Conv2d(2 * width, channels, 1)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        return self.as_output(self.out(self.layers(code)))


@DECODERS.register("spatial_broadcast")
class SpatialBroadcast(Decoder):
    """The spatial broadcast decoder (Watters et al. 2019): code and coordinates tiled, then 5×5 convolutions.

    Args:
        shapes: The task, or its shapes.
        depth: Hidden convolutions.
        width: Their channels; often 64.
    """

    def __init__(self, shapes: Task | Shapes, depth: Count = 3, width: Count = 32) -> None:
        super().__init__(shapes)
        channels, *sides = self.image_axes
        self.layers = _stack(Coordinates(self.shapes.code_size, sides, width, KERNEL), [width] * depth, KERNEL)
        self.out = nn.Conv2d(width, channels, KERNEL, padding=KERNEL // 2)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        return self.as_output(self.out(self.layers(code)))
