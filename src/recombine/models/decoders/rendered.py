"""The factor-rendered decoder: the paper's architectural remedy."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder
from recombine.models.fast_paths.choice import parts_of
from recombine.models.fast_paths.low_rank import quick_low_rank
from recombine.models.fast_paths.prelu import quick_prelu
from recombine.models.forced_rendering.renderer import FactorRenderer

ACTIVATIONS = {"prelu": nn.PReLU, "relu": nn.ReLU, "gelu": nn.GELU}


@DECODERS.register("rendered")
class FactorRendered(Decoder):
    """A renderer and a small network on its channels.

    The head is (activation, transposed 3×3 convolution) × depth, activation, 3×3 convolution to the image; by default
    with as many channels as the renderer draws, as in the paper.

    Args:
        shapes: The task, or its shapes; the code must have one entry per factor value (one-hot, bump).
        depth: Hidden convolutions of the head.
        width: Channels of the hidden convolutions; by default as many as the renderer draws.
        rank: Modes per map, see FactorRenderer.
        channels: Maps per factor value.
        activation: "prelu" (the paper's), "relu" or "gelu".
        padding: What the head's convolutions see beyond the image: "zeros" (the paper's), or "replicate", copies of the
            border pixels. Zeros end a band at the border. The maps must then compensate for this at each border
            separately, which fails where borders meet outside the training cells. With copies, a band continues.
    """

    stacks = True
    fast_paths = ("stacked_forward",)

    def __init__(
        self,
        shapes: Task | Shapes,
        depth: Count = 2,
        width: Count | None = None,
        rank: Count | None = None,
        channels: Count = 1,
        activation: Literal["prelu", "relu", "gelu"] = "prelu",
        padding: Literal["zeros", "replicate"] = "zeros",
    ) -> None:
        super().__init__(shapes)
        self.activation = activation
        self.padding = padding
        if self.shapes.code_size != sum(self.shapes.factor_sizes):
            raise InputError(
                "The rendered decoder requires a code with one entry per factor value "
                f"({sum(self.shapes.factor_sizes)}), such as onehot or bump. Got {self.shapes.code_size} entries."
            )
        image_channels, *sides = self.image_axes
        self.renderer = FactorRenderer(self.shapes.factor_sizes, sides, rank, channels)
        drawn = channels * len(self.shapes.factor_sizes)
        widths = [drawn] + [width or drawn] * depth + [image_channels]
        replicate = padding == "replicate"
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i, (inputs, outputs) in enumerate(pairwise(widths), 1):
            convolution = (  # the transposed one crops two pixels of padding, the other none
                nn.ConvTranspose2d(inputs, outputs, 3, padding=2 if replicate else 1)
                if i <= depth
                else nn.Conv2d(inputs, outputs, 3, padding=0 if replicate else 1)
            )
            parts: list[tuple[str, nn.Module]] = [("act", ACTIVATIONS[activation]())]
            parts += [("pad", nn.ReplicationPad2d(1))] if replicate else []
            layers[str(i)] = nn.Sequential(OrderedDict([*parts, ("conv", convolution)]))
        self.layers = nn.Sequential(layers)
        self.built_parts = parts_of(self)

    def describe(self, names: Sequence[str]) -> dict[str, dict[str, list[float]]]:
        """`effective_rank`: factor → effective rank of each value's map, mean over channels."""
        ranks = self.renderer.effective_ranks().detach().mean(-1).split(self.renderer.factor_sizes)
        return {"effective_rank": {name: values.tolist() for name, values in zip(names, ranks)}}

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        return self.as_output(self.layers(self.renderer(code)))

    def stacked_forward(
        self, parameters: dict[str, Tensor], code: Float[Tensor, "seed batch code"]
    ) -> Float[Tensor, "seed batch *channel row column"]:
        """The forward pass of several seeds together.

        A few channels are too few to keep a convolution busy, and grouped convolutions are slow. The kernels of the
        seeds are therefore the blocks of one dense kernel over all their channels (the seeds of the first channel, then
        those of the second, …). The zeros in between cost less.
        """
        seeds = len(code)
        image = self._draw_stacked(parameters, code)
        for name, layer in self.layers.named_children():
            act, conv = (dict(layer.named_children())[part] for part in ("act", "conv"))
            if isinstance(act, nn.PReLU):
                slopes = parameters[f"layers.{name}.act.weight"]
                image = quick_prelu(image, slopes.flatten().repeat(image.shape[1] // seeds))
            else:
                image = act(image)
            kernel = parameters[f"layers.{name}.conv.weight"]
            if isinstance(conv, nn.ConvTranspose2d):  # stride 1: equals the convolution with the flipped kernel
                kernel = kernel.transpose(1, 2).flip(-1, -2)
            apart = torch.eye(seeds, dtype=kernel.dtype, device=kernel.device)
            dense = torch.einsum("soihw,st->osithw", kernel, apart).flatten(0, 1).flatten(1, 2)
            bias = parameters[f"layers.{name}.conv.bias"].T.flatten()
            if self.padding == "replicate":
                image = F.conv2d(F.pad(image, (1, 1, 1, 1), mode="replicate"), dense, bias)
            else:
                image = F.conv2d(image, dense, bias, padding=1)
        image = image.unflatten(1, (-1, seeds)).movedim(2, 0)  # the seeds to the front
        return image.squeeze(2) if len(self.shapes.output_shape) == 2 else image

    def _draw_stacked(
        self, parameters: dict[str, Tensor], code: Float[Tensor, "seed batch code"]
    ) -> Float[Tensor, "batch channel_seed row column"]:
        maps = quick_low_rank(*(parameters[f"renderer.{name}"] for name in ("strengths", "rows", "columns")))
        sizes = self.renderer.factor_sizes
        channels, rows, columns = maps.shape[2:]
        drawn = []
        for block, own in zip(code.split(sizes, dim=-1), maps.split(sizes, dim=1)):
            factor = (block @ own.flatten(2)).unflatten(-1, (channels, rows * columns))
            drawn.append(factor.permute(1, 3, 2, 0).flatten(2))
        return torch.cat(drawn, dim=2).unflatten(1, (rows, columns)).permute(0, 3, 1, 2)  # channels last in memory
