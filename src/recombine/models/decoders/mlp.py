"""The fully connected decoder."""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.registry import Count
from recombine.core.task import Shapes, Task
from recombine.models.decoder import DECODERS, Decoder
from recombine.models.fast_paths.choice import parts_of


@DECODERS.register("mlp")
class MLP(Decoder):
    """`depth` hidden ReLU layers of `width` units, linear to outputs of any shape (MLP(d, h) of Liang et al. 2025)."""

    stacks = True
    fast_paths = ("stacked_forward",)

    def __init__(self, shapes: Task | Shapes, depth: Count = 3, width: Count = 256) -> None:
        super().__init__(shapes)
        widths = [self.shapes.code_size] + [width] * depth
        self.layers = nn.Sequential(
            OrderedDict(
                (
                    str(i),
                    nn.Sequential(OrderedDict(linear=nn.Linear(widths[i - 1], widths[i]), act=nn.ReLU())),
                )
                for i in range(1, depth + 1)
            )
        )
        self.out = nn.Linear(width, math.prod(self.shapes.output_shape))
        self.built_parts = parts_of(self)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch ..."]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        return self.out(self.layers(code)).unflatten(-1, self.shapes.output_shape)

    def stacked_forward(
        self, parameters: dict[str, Tensor], code: Float[Tensor, "seed batch code"]
    ) -> Float[Tensor, "seed batch ..."]:
        """The forward pass of several seeds together; units before samples avoid transposed weight gradients."""
        units = code.mT
        for name in self.layers._modules:
            weight, bias = (parameters[f"layers.{name}.linear.{part}"] for part in ("weight", "bias"))
            units = torch.relu(torch.baddbmm(bias.unsqueeze(-1), weight, units))
        units = torch.baddbmm(parameters["out.bias"].unsqueeze(-1), parameters["out.weight"], units)
        return units.mT.unflatten(-1, self.shapes.output_shape)
