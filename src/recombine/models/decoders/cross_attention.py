"""Pixels that attend to factors (Brady et al. 2024, Interaction Asymmetry)."""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder
from recombine.models.slots import SlotEmbedding, SlotList, slot_blocks


@DECODERS.register("cross_attention")
class CrossAttention(Decoder):
    """One query per pixel attends to one token per slot in every layer. Queries never attend to each other.

    Together with the loss term `interaction`, which encourages each pixel to attend to a single slot, it is the decoder
    of the paper. Each layer: attention, then a ReLU network of 2·width units, both added to the query.

    Args:
        shapes: The task, or its shapes; the code must have one entry per factor value (one-hot, bump).
        depth: Number of layers.
        width: Width of queries and tokens, divisible by heads.
        heads: Attention heads.
        slots: Numbers of the factors of each slot, such as [[0, 1], [2, 3]]; by default one slot per factor.
    """

    def __init__(
        self,
        shapes: Task | Shapes,
        depth: Count = 2,
        width: Count = 64,
        heads: Count = 4,
        slots: SlotList | None = None,
    ) -> None:
        super().__init__(shapes)
        if width % heads:
            raise InputError(f"The decoder's width must be divisible by its heads. Got {width} and {heads}.")
        channels, *sides = self.image_axes
        self.tokens = SlotEmbedding(slot_blocks(self.shapes, slots, "cross_attention"), width)
        self.queries = Queries(math.prod(sides), width)
        self.layers = nn.Sequential(OrderedDict((str(i), Attending(width, heads)) for i in range(1, depth + 1)))
        self.out = nn.Linear(width, channels)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        return self._run(code)[0]

    def attention(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch layer head pixel slot"]:
        """How much each pixel attends to each slot; sums to 1 over the slots."""
        return self._run(code)[1]

    def _run(self, code: Tensor) -> tuple[Tensor, Tensor]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        tokens = self.tokens(code)
        queries = self.queries.weight.expand(len(code), -1, -1)
        weights = []
        for layer in self.layers:
            queries, attended = layer(queries, tokens)
            weights.append(attended)
        image = self.out(queries).mT.unflatten(-1, self.image_axes[1:])
        return self.as_output(image), torch.stack(weights, dim=1)


class Queries(nn.Module):
    """A learnt query per pixel."""

    def __init__(self, pixels: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(pixels, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight)


class Attending(nn.Module):
    """One layer: queries (batch, pixel, width) and tokens (batch, slot, width) → queries and attention weights."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ask = nn.Linear(width, width)
        self.answer = nn.Linear(width, 2 * width)
        self.attend_out = nn.Linear(width, width)
        self.norm_attention = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 2 * width)
        self.act = nn.ReLU()
        self.narrow = nn.Linear(2 * width, width)
        self.norm_feedforward = nn.LayerNorm(width)

    def forward(
        self, queries: Float[Tensor, "batch pixel width"], tokens: Float[Tensor, "batch slot width"]
    ) -> tuple[Float[Tensor, "batch pixel width"], Float[Tensor, "batch head pixel slot"]]:
        query = self.ask(queries).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.answer(tokens).chunk(2, dim=-1)
        )
        weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1)
        attended = (weights @ value).transpose(1, 2).flatten(2)
        queries = self.norm_attention(queries + self.attend_out(attended))
        return self.norm_feedforward(queries + self.narrow(self.act(self.widen(queries)))), weights
