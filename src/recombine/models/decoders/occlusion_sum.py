"""Slots that cover one another (Wiedemer et al. 2023, Compositional Generalization from First Principles)."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder
from recombine.models.slots import SlotList, SlotPictures, slot_blocks


@DECODERS.register("occlusion_sum")
class OcclusionSum(Decoder):
    """Every slot draws a picture a_k and covers those before it: x ← σ(s_k) · a_k + σ(−s_k) · x.

    The order of the slots, back to front, is prior knowledge about the scene.

    Args:
        shapes: The task, or its shapes; the code must have one entry per factor value (one-hot, bump).
        width: Channels of each slot's network, see `recombine.models.slots.SlotPictures`.
        cover: Source of s_k: a separate channel ("alpha"), or the sum of the picture's channels ("sum", as published
            for two slots: a·σ(Σa) + b·σ(−Σa)).
        slots: Numbers of the factors of each slot, back to front; by default one slot per factor.
    """

    def __init__(
        self,
        shapes: Task | Shapes,
        width: Count = 32,
        cover: Literal["alpha", "sum"] = "alpha",
        slots: SlotList | None = None,
    ) -> None:
        super().__init__(shapes)
        self.cover = cover
        channels, *sides = self.image_axes
        blocks = slot_blocks(self.shapes, slots, "occlusion_sum")
        pictures = SlotPictures(blocks, channels + (cover == "alpha"), sides, width, shared=False)
        self.layers, self.out = pictures.layers, pictures.out

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        rows, columns = self.image_axes[1:]
        image: Tensor | None = None
        for drawn in self.out(self.layers(code))[..., :rows, :columns].unbind(1):
            picture = drawn[:, :-1] if self.cover == "alpha" else drawn
            strength = drawn[:, -1:] if self.cover == "alpha" else drawn.sum(1, keepdim=True)
            alpha = strength.sigmoid()
            image = alpha * picture if image is None else torch.lerp(image, picture, alpha)
        assert image is not None
        return self.as_output(image)
