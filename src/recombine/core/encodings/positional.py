"""Sines and cosines."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.encodings.encoding import ENCODINGS, Encoding
from recombine.core.factors import FactorSpace
from recombine.core.registry import Count, Positive


@ENCODINGS.register("positional")
class Positional(Encoding):
    """Sines and cosines of each factor at geometric frequencies.

    Frequencies are base^(−k/K) radians per grid step for k = 0 … K−1. A cyclic factor uses whole harmonics
    1 … K of its period instead, so that K = 1 gives (sin θ, cos θ).

    Args:
        space: The factor space.
        frequencies: K; a factor has 2K units.
        base: Ratio between the highest frequency and the one that would follow the lowest.
    """

    def __init__(self, space: FactorSpace, frequencies: Count = 14, base: Positive = 10_000.0) -> None:
        super().__init__(space)
        self.frequencies = frequencies
        self.base = base

    def block_size(self, name: str) -> int:
        return 2 * self.frequencies

    def encode_factor(self, name: str, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape unit"]:
        factor = self.space.factors[name]
        k = torch.arange(self.frequencies, dtype=values.dtype, device=values.device)
        rates = 2 * math.pi * (k + 1) / factor.size if factor.kind == "cyclic" else self.base ** (-k / self.frequencies)
        phase = factor.position(values).unsqueeze(-1) * rates
        return torch.cat([phase.sin(), phase.cos()], dim=-1)
