"""The rate code."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.encodings.encoding import ENCODINGS, Encoding
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace


@ENCODINGS.register("ramp")
class Ramp(Encoding):
    """Rate code: one unit per factor holding the coordinate.

    Args:
        space: The factor space.
        normalized: Divide by N − 1, so that the grid spans [0, 1]; otherwise the coordinate counts grid steps.
        flag: Add a second unit per factor that is 1 when the factor is present (see the package's docstring).
    """

    def __init__(self, space: FactorSpace, normalized: bool = True, flag: bool = False) -> None:
        super().__init__(space)
        self.normalized = normalized
        self.flag = flag

    def block_size(self, name: str) -> int:
        return 2 if self.flag else 1

    def encode_factor(self, name: str, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape unit"]:
        factor = self.space.factors[name]
        level = factor.position(values) / (max(factor.size - 1, 1) if self.normalized else 1)
        return torch.stack([level, torch.ones_like(level)] if self.flag else [level], dim=-1)

    def absent(self, name: str, block: Float[Tensor, "*shape unit"]) -> Float[Tensor, "*shape unit"]:
        if not self.flag:
            raise InputError(
                "A ramp code without a presence flag cannot represent an absent factor, because 0 is a coordinate. "
                "To train on stripes, use Ramp(space, flag=True), or encoding.flag=true on the command line."
            )
        return super().absent(name, block)
