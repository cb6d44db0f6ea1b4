"""The population code."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.encodings.encoding import ENCODINGS, Encoding, unit_distance
from recombine.core.factors import FactorSpace
from recombine.core.registry import Width


@ENCODINGS.register("bump")
class Bump(Encoding):
    """Population code: unit i responds with exp(−(i − x)² / 2w²) (Liang et al. 2025, bump encoding).

    Args:
        space: The factor space.
        width: w, in grid steps.
    """

    def __init__(self, space: FactorSpace, width: Width = 1.0) -> None:
        super().__init__(space)
        self.width = width

    def block_size(self, name: str) -> int:
        return self.space.factors[name].size

    def encode_factor(self, name: str, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape unit"]:
        return torch.exp(-unit_distance(self.space.factors[name], values).square() / (2 * self.width**2))
