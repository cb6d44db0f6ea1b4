"""Masked slots (Brady et al. 2023, Provably Learning Object-Centric Representations)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder
from recombine.models.slots import SlotList, SlotPictures, slot_blocks


@DECODERS.register("masked_slots")
class MaskedSlots(Decoder):
    """x̂ = Σ_k softmax_k(m_k) · r_k: one network draws a picture r_k and a mask m_k for every slot.

    Args:
        shapes: The task, or its shapes; the code must have one entry per factor value (one-hot, bump).
        width: Channels of the network that all slots share, see `recombine.models.slots.SlotPictures`.
        slots: Numbers of the factors of each slot, such as [[0, 1], [2, 3]]; by default one slot per factor.
    """

    def __init__(self, shapes: Task | Shapes, width: Count = 32, slots: SlotList | None = None) -> None:
        super().__init__(shapes)
        channels, *sides = self.image_axes
        blocks = slot_blocks(self.shapes, slots, "masked_slots")
        pictures = SlotPictures(blocks, channels + 1, sides, width, shared=True)
        self.layers, self.out = pictures.layers, pictures.out

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        rows, columns = self.image_axes[1:]
        drawn = self.out(self.layers(code))[..., :rows, :columns]
        return self.as_output((drawn[:, :, :-1] * drawn[:, :, -1:].softmax(1)).sum(1))
