"""The image encoder of the inverse experiment."""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder

CHANNELS = (32, 64, 128)


@DECODERS.register("encoder")
class Encoder(Decoder):
    """Image → code: three stride-2 convolutions (32, 64, 128 channels), `width` units, linear to the code.

    The last feature map is not averaged over pixels before the linear layer, because that would discard the position to
    be read out.
    """

    inverse = True

    def __init__(self, shapes: Task | Shapes, width: Count = 128) -> None:
        super().__init__(shapes)
        image_channels, *sides = self.image_axes
        channels = (image_channels, *CHANNELS)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i, (inputs, outputs) in enumerate(zip(channels, CHANNELS), 1):
            convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)
            layers[str(i)] = nn.Sequential(OrderedDict(conv=convolution, act=nn.ReLU()))
        pixels = math.prod(math.ceil(side / 2 ** len(CHANNELS)) for side in sides)
        layers[str(len(CHANNELS) + 1)] = nn.Sequential(
            OrderedDict[str, nn.Module](
                flat=nn.Flatten(), linear=nn.Linear(CHANNELS[-1] * pixels, width), act=nn.ReLU()
            )
        )
        self.layers = nn.Sequential(layers)
        self.out = nn.Linear(width, self.shapes.code_size)
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def forward(self, image: Float[Tensor, "batch *channel row column"]) -> Float[Tensor, "batch code"]:
        self.check_input(image, self.shapes.output_shape, "images")
        return self.out(self.layers(image.unsqueeze(1) if image.ndim == 3 else image))
