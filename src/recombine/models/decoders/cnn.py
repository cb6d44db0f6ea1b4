"""The convolutional decoder."""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder
from recombine.models.fast_paths.choice import parts_of
from recombine.models.fast_paths.convolutions import quick_convolutions

FIRST_SIDE = 7


@DECODERS.register("cnn")
class CNN(Decoder):
    """Transposed convolutions from a 1×1 code up to the image (CNN(d, h) in Liang et al. 2025).

    Layer 1 spreads the code over 7×7 pixels (kernel 7). It is followed by `depth` layers: kernel 4, stride 2, which
    double the side until it reaches that of the image, then kernel 3, stride 1; ReLU after each. A last kernel-3 layer
    without nonlinearity gives the channels of the image. If the side is not 7·2^k, the result is resized (bilinear).

    The transposed convolutions of the paper are replaced by faster equivalents: the first one by a matrix product,
    those of stride 1 by convolutions. Their initial weights have the same distribution as those of the transposed
    convolutions. Activations and weights are channels-last.

    Args:
        shapes: The task, or its shapes.
        depth: d ≥ 1, so that layers 1 … d + 1 have nonlinearities.
        width: Channels of every hidden layer.
    """

    fast_paths = ("training_forward",)

    def __init__(self, shapes: Task | Shapes, depth: Count = 4, width: Count = 64) -> None:
        super().__init__(shapes)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        layers["1"] = _layer(Spread(self.shapes.code_size, width))
        channels, *sides = self.image_axes
        side, goal = FIRST_SIDE, max(sides)
        for index in range(2, depth + 2):
            if side < goal:
                layers[str(index)] = _layer(Doubling(width, width))
                side *= 2
            else:
                layers[str(index)] = _layer(SameConvolution(width, width))
        if side < goal:
            needed = math.ceil(math.log2(goal / FIRST_SIDE))
            raise InputError(
                f"A CNN of depth {depth} produces at most {side}×{side} pixels, but the image has "
                f"{sides[0]}×{sides[1]}. Use depth ≥ {needed}."
            )
        self.layers = nn.Sequential(layers)
        self.out = SameConvolution(width, channels)
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] (torch types it keyword-only)
        self.built_parts = parts_of(self)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        return self._resized(self.out(self.layers(code)))

    def training_forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        """`forward` with fewer passes over memory. It has first derivatives in reverse mode only."""
        if code.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return self(code)  # other devices and mixed precision are untested
        self.check_input(code, (self.shapes.code_size,), "codes")
        first, *others = self.layers
        parts = [*(layer.conv for layer in others), self.out]
        parameters = [parameter for part in parts for parameter in (part.weight, part.bias)]
        return self._resized(quick_convolutions(first(code), *parameters))

    def _resized(
        self, image: Float[Tensor, "batch channel row column"]
    ) -> Float[Tensor, "batch *channel row2 column2"]:
        sides = self.image_axes[1:]
        if image.shape[-2:] != sides:
            image = F.interpolate(image, sides, mode="bilinear", align_corners=False)
        return self.as_output(image)


def _layer(linear: nn.Module) -> nn.Module:
    return nn.Sequential(OrderedDict(conv=linear, act=nn.ReLU()))


class Spread(nn.ConvTranspose2d):
    """A kernel-7 transposed convolution of a 1×1 input, computed as a matrix product."""

    def __init__(self, code_size: int, width: int) -> None:
        super().__init__(code_size, width, FIRST_SIDE)

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, code: Float[Tensor, "batch code"]
    ) -> Float[Tensor, "batch channel 7 7"]:
        assert self.bias is not None
        weight = self.weight.permute(0, 2, 3, 1).flatten(1)  # a view, the weights being channels-last
        spread = torch.addmm(self.bias.repeat(FIRST_SIDE**2), code, weight)
        return spread.unflatten(-1, (FIRST_SIDE, FIRST_SIDE, self.out_channels)).permute(0, 3, 1, 2)


class Doubling(nn.ConvTranspose2d):
    """A kernel-4, stride-2 transposed convolution. Its bias is added separately, because oneDNN's is 20× slower."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, 4, stride=2, padding=1, bias=bias)

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, image: Float[Tensor, "batch channel row column"]
    ) -> Float[Tensor, "batch channel2 row2 column2"]:
        doubled = F.conv_transpose2d(image, self.weight, stride=2, padding=1)
        return doubled if self.bias is None else doubled + self.bias[:, None, None]


class SameConvolution(nn.Conv2d):
    """A kernel-3, stride-1 transposed convolution, computed as the equivalent convolution, with its initialization."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3, padding=1)

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.out_channels * 9)
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)
