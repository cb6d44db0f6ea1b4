"""The additive decoder (Lachapelle et al. 2023, Additive Decoders for Latent Variables Identification)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder
from recombine.models.slots import SlotList, SlotPictures, slot_blocks


@DECODERS.register("additive")
class Additive(Decoder):
    """x̂ = Σ_k f_k(z_k): every slot draws a separate picture, and the pictures are added.

    It can extrapolate if the scene is a sum over slots (balls), and must fail if it is not (a bump, which is a
    product). The least-squares fit of a sum is then a lower bound on its error.

    Args:
        shapes: The task, or its shapes; the code must have one entry per factor value (one-hot, bump).
        width: Channels of each slot's network, see `recombine.models.slots.SlotPictures`.
        slots: Numbers of the factors of each slot, such as [[0, 1], [2, 3]]; by default one slot per factor.
    """

    def __init__(self, shapes: Task | Shapes, width: Count = 32, slots: SlotList | None = None) -> None:
        super().__init__(shapes)
        channels, *sides = self.image_axes
        pictures = SlotPictures(slot_blocks(self.shapes, slots, "additive"), channels, sides, width, shared=False)
        self.layers, self.out = pictures.layers, pictures.out

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        return self.as_output(self.pictures(code).sum(1))

    def pictures(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch slot channel row column"]:
        """The picture of each slot."""
        self.check_input(code, (self.shapes.code_size,), "codes")
        rows, columns = self.image_axes[1:]
        return self.out(self.layers(code))[..., :rows, :columns]
