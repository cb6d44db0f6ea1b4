"""Decoders with one token per pixel: a transformer, and a coordinate network that treats pixels separately.

A pixel's token is a projection of the code plus a fixed two-dimensional sinusoidal position.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder


class Tokens(nn.Module):
    """Code (batch, code) → one token per pixel (batch, pixel, width)."""

    positions: Tensor

    def __init__(self, code_size: int, sides: Sequence[int], width: int) -> None:
        super().__init__()
        if width % 4:
            raise InputError(f"Pixel tokens need a width divisible by 4 (sines and cosines of two axes). Got {width}.")
        self.project = nn.Linear(code_size, width)
        rows, columns = (torch.arange(n, dtype=torch.get_default_dtype()) for n in sides)
        rates = 10_000.0 ** (-torch.arange(width // 4) / (width // 4))
        waves = [torch.cat([torch.sin(p[:, None] * rates), torch.cos(p[:, None] * rates)], -1) for p in (rows, columns)]
        by_row = waves[0][:, None].expand(-1, len(columns), -1)
        by_column = waves[1][None].expand(len(rows), -1, -1)
        self.register_buffer("positions", torch.cat([by_row, by_column], -1).flatten(0, 1), persistent=False)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch pixel width"]:
        return self.project(code).unsqueeze(1) + self.positions


class Block(nn.Module):
    """A standard (post-norm) transformer encoder layer with its nonlinearity as a named module."""

    def __init__(self, width: int, heads: int, feedforward: int) -> None:
        super().__init__()
        self.heads = heads
        self.attend_in = nn.Linear(width, 3 * width)
        self.attend_out = nn.Linear(width, width)
        self.norm_attention = nn.LayerNorm(width)
        self.widen = nn.Linear(width, feedforward)
        self.act = nn.ReLU()
        self.narrow = nn.Linear(feedforward, width)
        self.norm_feedforward = nn.LayerNorm(width)

    def forward(self, tokens: Float[Tensor, "batch pixel width"]) -> Float[Tensor, "batch pixel width"]:
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.attend_in(tokens).chunk(3, dim=-1)
        )
        attended = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        tokens = self.norm_attention(tokens + self.attend_out(attended))
        return self.norm_feedforward(tokens + self.narrow(self.act(self.widen(tokens))))


@DECODERS.register("transformer")
class Transformer(Decoder):
    """`depth` standard encoder layers over pixel tokens, then one linear value per token and channel. No dropout.

    Args:
        shapes: The task, or its shapes.
        depth: Number of encoder layers.
        width: Token width, divisible by 4 and by heads.
        heads: Attention heads.
        feedforward: Units of each layer's ReLU; by default 4 · width.
    """

    def __init__(
        self,
        shapes: Task | Shapes,
        depth: Count = 2,
        width: Count = 128,
        heads: Count = 4,
        feedforward: Count | None = None,
    ) -> None:
        super().__init__(shapes)
        if width % heads:
            raise InputError(f"The transformer's width must be divisible by its heads. Got {width} and {heads}.")
        channels, *sides = self.image_axes
        self.tokens = Tokens(self.shapes.code_size, sides, width)
        self.layers = nn.Sequential(
            OrderedDict((str(i), Block(width, heads, feedforward or 4 * width)) for i in range(1, depth + 1))
        )
        self.out = nn.Linear(width, channels)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        pixels = self.out(self.layers(self.tokens(code)))
        return self.as_output(pixels.mT.unflatten(-1, self.image_axes[1:]))


@DECODERS.register("pixel_mlp")
class PixelMLP(Decoder):
    """A coordinate network: each pixel's token goes through `depth` shared linear + PReLU layers to its channels."""

    def __init__(self, shapes: Task | Shapes, depth: Count = 2, width: Count = 256) -> None:
        super().__init__(shapes)
        channels, *sides = self.image_axes
        self.tokens = Tokens(self.shapes.code_size, sides, width)
        self.layers = nn.Sequential(
            OrderedDict(
                (str(i), nn.Sequential(OrderedDict(linear=nn.Linear(width, width), act=nn.PReLU())))
                for i in range(1, depth + 1)
            )
        )
        self.out = nn.Linear(width, channels)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        pixels = self.out(self.layers(self.tokens(code)))
        return self.as_output(pixels.mT.unflatten(-1, self.image_axes[1:]))
