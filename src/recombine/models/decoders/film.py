"""Feature-wise modulation (Perez et al. 2018, FiLM)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder
from recombine.models.decoders.cnn import Doubling
from recombine.models.slots import DOUBLINGS, HIDDEN, factor_blocks


@DECODERS.register("film")
class FiLM(Decoder):
    """A convolutional network draws the first factor, and the other factors scale and shift each of its channels.

    h ← γ_l(z_2, …) ⊙ h + β_l(z_2, …) before the ReLU of each layer l, which is the cheapest way for factors to
    multiply. Layers: linear to 4·width units, linear to `width` channels of a quarter of the sides, two transposed
    convolutions (kernel 4, stride 2), then a 3×3 convolution to the image. A single factor modulates itself.

    Args:
        shapes: The task, or its shapes; the code must have one entry per factor value (one-hot, bump).
        width: Channels of the hidden layers.
    """

    def __init__(self, shapes: Task | Shapes, width: Count = 32) -> None:
        super().__init__(shapes)
        channels, *sides = self.image_axes
        self.drawn, *others = factor_blocks(self.shapes, "film")
        self.modulating = [unit for block in others for unit in block] or self.drawn
        self.start = [math.ceil(side / 2**DOUBLINGS) for side in sides]
        linears: list[tuple[nn.Module, int]] = [
            (nn.Linear(len(self.drawn), HIDDEN * width), HIDDEN * width),
            (nn.Linear(HIDDEN * width, width * math.prod(self.start)), width),
            *((Doubling(width, width), width) for _ in range(DOUBLINGS)),
        ]
        self.layers = nn.ModuleDict(
            {
                str(i): nn.ModuleDict(
                    {"linear": linear, "film": Modulation(len(self.modulating), size), "act": nn.ReLU()}
                )
                for i, (linear, size) in enumerate(linears, 1)
            }
        )
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        hidden, others = code[:, self.drawn], code[:, self.modulating]
        for index, layer in self.layers.items():
            assert isinstance(layer, nn.ModuleDict)
            hidden = layer["linear"](hidden)
            hidden = hidden.unflatten(1, (-1, *self.start)) if index == "2" else hidden
            hidden = layer["act"](layer["film"](hidden, others))
        rows, columns = self.image_axes[1:]
        return self.as_output(self.out(hidden)[..., :rows, :columns])


class Modulation(nn.Module):
    """h ← γ(z) ⊙ h + β(z), channel by channel; γ starts around 1."""

    def __init__(self, units: int, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(units, 2 * channels)

    def forward(
        self, hidden: Float[Tensor, "batch channel *place"], units: Float[Tensor, "batch unit"]
    ) -> Float[Tensor, "batch channel *place"]:
        scale, shift = self.linear(units).reshape(len(units), 2, -1, *[1] * (hidden.ndim - 2)).unbind(1)
        return torch.addcmul(hidden + shift, hidden, scale)
