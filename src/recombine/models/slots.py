"""One picture per block of the code: the component that additive, masked, occluding and multiplicative decoders share.

A *slot* contains one factor, or several that belong to one object. Its block of the code becomes a picture without
access to the others. The decoder defines how the pictures are combined.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.task import Shapes

DOUBLINGS = 2
HIDDEN = 4  # units of the first layer, as a multiple of the channels
SlotList = Annotated[list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]], Field(min_length=1)]


def factor_blocks(shapes: Shapes, decoder: str) -> list[list[int]]:
    """Units of the code that belong to each factor.

    Raises:
        InputError: If the code does not have one entry per factor value.
    """
    if shapes.code_size != sum(shapes.factor_sizes):
        raise InputError(
            f"The {decoder} decoder requires a code with one entry per factor value ({sum(shapes.factor_sizes)}), "
            f"such as onehot or bump, to know which entries belong to which factor. Got {shapes.code_size} entries.",
            "encoding.kind",
        )
    units = iter(range(shapes.code_size))
    return [[next(units) for _ in range(size)] for size in shapes.factor_sizes]


def slot_blocks(shapes: Shapes, slots: Sequence[Sequence[int]] | None, decoder: str) -> list[list[int]]:
    """Units of the code that belong to each slot; by default one slot per factor."""
    blocks = factor_blocks(shapes, decoder)
    if slots is None:
        return blocks
    if sorted(factor for slot in slots for factor in slot) != list(range(len(blocks))):
        raise InputError(
            f"slots must list each factor once by its number, 0 … {len(blocks) - 1}, such as [[0, 1], [2]]. "
            f"Got {[list(slot) for slot in slots]}.",
            "decoder.slots",
        )
    return [[unit for factor in slot for unit in blocks[factor]] for slot in slots]


class SlotPictures(nn.Module):
    """Code (batch, code) → one picture per slot (batch, slot, channel, row, column).

    Per slot: linear to 4·width units, linear to `width` channels of a quarter of the sides, two transposed convolutions
    (kernel 4, stride 2), a 3×3 convolution; ReLU after all but the last. Sides that are not multiples of 4 are cropped.

    Args:
        blocks: Units of the code of each slot.
        channels: Channels of a picture.
        sides: (rows, columns) of a picture.
        width: Channels of the hidden layers.
        shared: One network for all slots, after a separate first layer per slot; otherwise one network per slot.
    """

    def __init__(
        self, blocks: Sequence[Sequence[int]], channels: int, sides: Sequence[int], width: int, shared: bool
    ) -> None:
        super().__init__()
        self.sides = (sides[0], sides[1])
        slots, networks = len(blocks), 1 if shared else len(blocks)
        start = [math.ceil(side / 2**DOUBLINGS) for side in sides]
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        layers["1"] = _layer(SlotEmbedding(blocks, HIDDEN * width))
        layers["2"] = _layer(SlotLinear(networks, HIDDEN * width, width, start))
        for index in range(DOUBLINGS):
            layers[str(3 + index)] = _layer(SlotConvolution(slots, networks, width, width, doubles=True))
        self.layers = nn.Sequential(layers)
        self.out = SlotConvolution(slots, networks, width, channels, doubles=False)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch slot channel row column"]:
        rows, columns = self.sides
        return self.out(self.layers(code))[..., :rows, :columns]


def _layer(linear: nn.Module) -> nn.Module:
    return nn.Sequential(OrderedDict(linear=linear, act=nn.ReLU()))


class SlotEmbedding(nn.Module):
    """A linear map of each slot's block: (batch, code) → (batch, slot, unit)."""

    def __init__(self, blocks: Sequence[Sequence[int]], units: int) -> None:
        super().__init__()
        self.blocks = [list(block) for block in blocks]
        self.maps = nn.ModuleList(nn.Linear(len(block), units) for block in blocks)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch slot unit"]:
        return torch.stack([own(code[:, block]) for own, block in zip(self.maps, self.blocks)], dim=1)


class SlotLinear(nn.Module):
    """A linear map to a small picture, one for all slots or one each: (batch, slot, unit) → (batch, slot, c, r, c)."""

    def __init__(self, networks: int, units: int, channels: int, sides: Sequence[int]) -> None:
        super().__init__()
        self.shape = (channels, *sides)
        self.weight = nn.Parameter(torch.empty(networks, units, math.prod(self.shape)))
        self.bias = nn.Parameter(torch.empty(networks, math.prod(self.shape)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As nn.Linear."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, units: Float[Tensor, "batch slot unit"]) -> Float[Tensor, "batch slot channel row column"]:
        weight = self.weight.expand(units.shape[1], -1, -1)
        return (torch.einsum("bsi,sio->bso", units, weight) + self.bias).unflatten(-1, self.shape)


class SlotConvolution(nn.Module):
    """A convolution within each slot, one for all or one each: (batch, slot, channel, row, column) → the same axes."""

    def __init__(self, slots: int, networks: int, inputs: int, outputs: int, doubles: bool) -> None:
        super().__init__()
        self.slots, self.networks, self.doubles = slots, networks, doubles
        size = 4 if doubles else 3
        shape = (inputs, outputs) if doubles else (outputs, inputs)
        self.weight = nn.Parameter(torch.empty(networks * shape[0], shape[1], size, size))
        self.bias = nn.Parameter(torch.empty(networks, outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize like torch's convolutions: uniform within 1/√(inputs per output)."""
        taps = 4 if self.doubles else 9  # every output pixel sees a quarter of a doubling kernel
        inputs = self.weight.shape[0] // self.networks if self.doubles else self.weight.shape[1]
        bound = 1 / math.sqrt(inputs * taps)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(
        self, images: Float[Tensor, "batch slot channel row column"]
    ) -> Float[Tensor, "batch slot channel2 row2 column2"]:
        given = images.flatten(0, 1) if self.networks == 1 else images.flatten(1, 2)
        if self.doubles:
            made = F.conv_transpose2d(given, self.weight, stride=2, padding=1, groups=self.networks)
        else:
            made = F.conv2d(given, self.weight, padding=1, groups=self.networks)
        made = made.reshape(len(images), self.slots, -1, *made.shape[-2:])
        return made + self.bias[..., None, None]
