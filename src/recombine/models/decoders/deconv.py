"""The batch-normalized decoder of the rotation study."""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder
from recombine.models.decoders.cnn import Doubling

DOUBLINGS = 2


@DECODERS.register("deconv")
class Deconv(Decoder):
    """Linear to a quarter of the image's sides, two stride-2 transposed convolutions, a 3×3 convolution, a sigmoid.

    For 28×28 pixels: linear to 7×7 pixels of `width` channels; transposed convolution (kernel 4, stride 2) to 14×14 and
    `width` channels, batch norm, ReLU; another one to 28×28 and `width` / 2 channels, batch norm, ReLU; 3×3 convolution
    to the image's channels (Liang et al. 2025, rotation study). Sides that are not multiples of 4 are cropped at the
    end. The sigmoid is part of the output and not a layer.

    Layers before batch norm have no bias: the norm would cancel it, and AdamW would let it drift. With batch norm, the
    output depends on whether the network is in training or in evaluation mode. Trained and loaded networks are in
    evaluation mode and use the running averages.

    Args:
        shapes: The task, or its shapes.
        width: Channels of the first two feature maps; the last has half as many. The study uses 128.
        batch_norm: Normalize after the transposed convolutions.
        sigmoid: Squash the image into (0, 1).
    """

    def __init__(
        self, shapes: Task | Shapes, width: Count = 128, batch_norm: bool = True, sigmoid: bool = True
    ) -> None:
        super().__init__(shapes)
        self.sigmoid = sigmoid
        image_channels, *sides = self.image_axes
        rows, columns = (math.ceil(side / 2**DOUBLINGS) for side in sides)
        last = max(1, width // 2)
        self.first = nn.Linear(self.shapes.code_size, width * rows * columns)
        self.small = (rows, columns, width)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i, channels in enumerate((width, last), 1):
            norm = {"norm": nn.BatchNorm2d(channels)} if batch_norm else {}
            parts = OrderedDict[str, nn.Module](
                conv=Doubling(width, channels, bias=not batch_norm), **norm, act=nn.ReLU()
            )
            layers[str(i)] = nn.Sequential(parts)
        self.layers = nn.Sequential(layers)
        self.out = nn.Conv2d(last, image_channels, 3, padding=1)
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] (torch types it keyword-only)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        small = self.first(code).unflatten(-1, self.small).permute(0, 3, 1, 2)  # channels-last
        _, rows, columns = self.image_axes
        image = self.as_output(self.out(self.layers(small))[..., :rows, :columns])
        return image.sigmoid() if self.sigmoid else image
