"""Low-rank products of maps: a CP decomposition of the image over its factors."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder
from recombine.models.slots import SlotList, SlotPictures, slot_blocks

FIRST_OUTPUT = 0.1  # approximate initial output


@DECODERS.register("cp")
class CP(Decoder):
    """x̂[p] = Σ_{r ≤ rank} Π_k f_k^r(z_k)[p]: a sum of products of one map per slot (a CP decomposition per pixel).

    A bump is such a product with rank 1, its inverse with rank 2. Free maps have one parameter per factor value, term,
    channel and pixel, so they cannot draw where no training image did. Shared maps come from one convolutional network.

    Args:
        shapes: The task, or its shapes; the code must have one entry per factor value (one-hot, bump).
        rank: Number of products.
        maps: "free" or "shared".
        width: Channels of the network of shared maps, see `recombine.models.slots.SlotPictures`; free maps have none.
        slots: Numbers of the factors of each slot, such as [[0, 1], [2, 3]]; by default one slot per factor.
    """

    def __init__(
        self,
        shapes: Task | Shapes,
        rank: Count = 2,
        maps: Literal["free", "shared"] = "shared",
        width: Count = 32,
        slots: SlotList | None = None,
    ) -> None:
        super().__init__(shapes)
        self.rank = rank
        channels, *sides = self.image_axes
        blocks = slot_blocks(self.shapes, slots, "cp")
        if maps == "free":
            self.layers = nn.Sequential()
            self.out: nn.Module = FreeMaps(blocks, rank * channels, sides, (FIRST_OUTPUT / rank) ** (1 / len(blocks)))
        else:
            pictures = SlotPictures(blocks, rank * channels, sides, width, shared=True)
            self.layers, self.out = pictures.layers, pictures.out

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        rows, columns = self.image_axes[1:]
        maps = self.out(self.layers(code))[..., :rows, :columns]
        product = maps[:, 0]
        for other in range(1, maps.shape[1]):
            product = product * maps[:, other]
        return self.as_output(product.unflatten(1, (self.rank, -1)).sum(1))


class FreeMaps(nn.Module):
    """One map per unit of the code, weighted by it: (batch, code) → (batch, slot, channel, row, column)."""

    def __init__(self, blocks: list[list[int]], channels: int, sides: list[int], start: float) -> None:
        super().__init__()
        self.blocks, self.start = blocks, start
        self.weight = nn.Parameter(torch.empty(sum(map(len, blocks)), channels, *sides))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize all maps positive and nearly equal, so that no product starts at 0."""
        nn.init.uniform_(self.weight, 0.5 * self.start, 1.5 * self.start)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch slot channel row column"]:
        maps = [(code[:, block] @ self.weight[block].flatten(1)) for block in self.blocks]
        return torch.stack(maps, dim=1).unflatten(-1, self.weight.shape[1:])
