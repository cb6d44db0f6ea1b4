"""The factor-rendered decoder: the paper's architectural remedy."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from recombine.decoders.decoder import DECODERS, Decoder
from recombine.decoders.renderer import FactorRenderer
from recombine.errors import InputError
from recombine.registry import Count
from recombine.task import Sizes, Task

ACTIVATIONS = {"prelu": nn.PReLU, "relu": nn.ReLU, "gelu": nn.GELU}


@DECODERS.register("rendered")
class FactorRendered(Decoder):
    """A renderer and a small network on its channels.

    The head is (activation, transposed 3×3 convolution) × depth, activation, 3×3 convolution to the image; by default
    with as many channels as the renderer draws, as in the paper.

    Args:
        sizes: The task, or its sizes; the code must have one entry per factor value (one-hot, bump).
        depth: Hidden convolutions of the head.
        width: Channels of the hidden convolutions; as many as the renderer draws unless given.
        rank: Modes per map, see FactorRenderer.
        channels: Maps per factor value.
        activation: "prelu" (the paper's), "relu" or "gelu".
    """

    def __init__(
        self,
        sizes: Task | Sizes,
        depth: Count = 2,
        width: Count | None = None,
        rank: Count | None = None,
        channels: Count = 1,
        activation: Literal["prelu", "relu", "gelu"] = "prelu",
    ) -> None:
        super().__init__(sizes)
        if self.sizes.code_size != sum(self.sizes.factor_sizes):
            raise InputError(
                f"The rendered decoder needs a code with one entry per factor value ({sum(self.sizes.factor_sizes)}), "
                f"such as onehot or bump. Got {self.sizes.code_size} entries."
            )
        self.renderer = FactorRenderer(self.sizes.factor_sizes, self.sizes.image_shape, rank, channels)
        drawn = channels * len(self.sizes.factor_sizes)
        widths = [drawn] + [width or drawn] * depth + [1]
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i, (inputs, outputs) in enumerate(pairwise(widths), 1):
            convolution = (
                nn.ConvTranspose2d(inputs, outputs, 3, padding=1)
                if i <= depth
                else nn.Conv2d(inputs, outputs, 3, padding=1)
            )
            layers[str(i)] = nn.Sequential(OrderedDict(act=ACTIVATIONS[activation](), conv=convolution))
        self.layers = nn.Sequential(layers)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch row column"]:
        self.check_input(code, (self.sizes.code_size,), "codes")
        return self.layers(self.renderer(code)).squeeze(1)
