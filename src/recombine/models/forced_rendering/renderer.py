"""Forced rendering: every value of every factor has its own image, and only those images reach the network.

    renderer = FactorRenderer((28, 28), image_shape=(28, 28))      # factors with 28 values each
    renderer(codes)                                                # (batch, code) → (batch, factor, row, column)

Liang et al. 2025, Sec. 5: value γ of a factor has the matrix W(γ) = Σ_n λ⁽ⁿ⁾ v⁽ⁿ⁾ u⁽ⁿ⁾ᵀ with unit vectors v (over
rows) and u (over columns). Each factor is thereby drawn in pixel space before factors can mix.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.errors import InputError

SHORTEST = 1e-12  # shorter vectors are not normalized
DARKEST = 1e-30  # maps with a smaller Σ λ² count as empty; dividing by less overflows in single precision


class FactorRenderer(nn.Module):
    """Draws each factor on separate channels. Place it in front of any convolutional network.

    Args:
        factor_sizes: Number of values of each factor.
        image_shape: (rows, columns) of the maps.
        rank: Number of terms n; at most, and by default, the shorter side of the image.
        channels: Maps per factor value.
    """

    def __init__(
        self,
        factor_sizes: Sequence[int],
        image_shape: Sequence[int],
        rank: int | None = None,
        channels: int = 1,
    ) -> None:
        super().__init__()
        factor_sizes = _whole_numbers(factor_sizes, "factor_sizes")
        image_shape = _whole_numbers(image_shape, "image_shape")
        [channels] = _whole_numbers([channels], "channels")
        if rank is not None:
            [rank] = _whole_numbers([rank], "rank")
        if len(image_shape) != 2 or min(image_shape) < 1:
            raise InputError(f"image_shape must be (rows, columns), both at least 1. Got {tuple(image_shape)}.")
        most = min(image_shape)
        if not factor_sizes or min(factor_sizes) < 1:
            raise InputError(f"A renderer needs at least one factor with at least one value. Got {list(factor_sizes)}.")
        if rank is not None and not 1 <= rank <= most:
            raise InputError(f"The rank of {image_shape[0]}×{image_shape[1]} maps must be in 1 … {most}. Got {rank}.")
        if channels < 1:
            raise InputError(f"A renderer needs at least one channel per factor. Got {channels}.")
        self.factor_sizes = tuple(factor_sizes)
        self.image_shape = (image_shape[0], image_shape[1])
        self.rank = rank or most
        self.channels = channels
        owners = (sum(self.factor_sizes), channels)
        self.strengths = nn.Parameter(torch.empty(*owners, self.rank))  # λ
        self.rows = nn.Parameter(torch.empty(*owners, self.rank, image_shape[0]))  # v, before normalization
        self.columns = nn.Parameter(torch.empty(*owners, self.rank, image_shape[1]))  # u, before normalization
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """λ normal with standard deviation 1/√N (N² pixels), v and u normalized gaussians."""
        nn.init.normal_(self.strengths, std=math.prod(self.image_shape) ** -0.25)
        with torch.no_grad():
            for vectors in (self.rows, self.columns):
                vectors.copy_(F.normalize(torch.randn_like(vectors), dim=-1))

    def maps(self) -> Float[Tensor, "value channel row column"]:
        """W(γ) of every value, factor by factor."""
        return low_rank(self.strengths, self.rows, self.columns)

    def forward(self, given: Tensor) -> Float[Tensor, "batch channel row column"]:
        """Render a batch. The maps are computed once for any number of samples.

        Args:
            given: Either value indices, integers (batch, factor), or a code, real (batch, Σ sizes), whose blocks weight
            the
                maps of their factor: a one-hot block selects one map, a bump code or any other code mixes neighbours.

        Returns:
            The channels of the first factor, then of the second, …
        """
        if given.ndim != 2 or given.dtype == torch.bool or given.is_complex():
            raise InputError(
                f"A renderer takes integer indices (batch, factor) or a real code (batch, Σ sizes). Got {given.dtype} "
                f"of shape {tuple(given.shape)}."
            )
        maps = self.maps().split(self.factor_sizes)
        if given.is_floating_point():
            if given.shape[-1] != sum(self.factor_sizes):
                raise InputError(
                    f"A code for factors with {list(self.factor_sizes)} values has {sum(self.factor_sizes)} entries. "
                    f"Got {given.shape[-1]}. Population codes (one-hot, bump) have one entry per value."
                )
            blocks = given.split(self.factor_sizes, dim=-1)
            drawn = [(block.to(m.dtype) @ m.flatten(1)).unflatten(-1, m.shape[1:]) for block, m in zip(blocks, maps)]
        else:
            given = given.long()  # uint8 would be interpreted as a mask
            self._check_indices(given)
            drawn = [m[given[:, factor]] for factor, m in enumerate(maps)]
        return torch.cat(drawn, dim=1)

    def _check_indices(self, given: Tensor) -> None:
        if given.shape[-1] != len(self.factor_sizes):
            raise InputError(
                f"Indices must have {len(self.factor_sizes)} columns, one per factor. Got {given.shape[-1]}."
            )
        for factor, size in enumerate(self.factor_sizes):
            column = given[:, factor]
            if column.numel() and (column.min() < 0 or column.max() >= size):
                worst = int(column.min() if column.min() < 0 else column.max())
                raise InputError(f"Factor {factor} has values 0 … {size - 1}. Got index {worst}.")

    def mode_shares(self) -> Float[Tensor, "value channel mode"]:
        """λ̃⁽ⁿ⁾ = λ⁽ⁿ⁾² / Σ_m λ⁽ᵐ⁾²: the share of each mode in a map; all 0 for an empty map."""
        squares = self.strengths.square()
        total = squares.sum(-1, keepdim=True)
        return squares / torch.where(total > DARKEST, total, 1.0)

    def effective_ranks(self) -> Float[Tensor, "value channel"]:
        """exp(entropy of λ̃) of every map, in [1, rank]; 1 for a single mode."""
        return entropy(self.mode_shares()).exp()

    def banding(self) -> Float[Tensor, "value channel"]:
        """How close each map is to a band along an image axis, in [0, 1].

        It is the larger of the shares of the map's energy that remain after averaging along rows or along columns. A
        stripe has banding 1. An all-zero map gives NaN.
        """
        maps = self.maps()
        energy = maps.square().sum((-2, -1))
        along = [maps.mean(axis).square().sum(-1) * maps.shape[axis] for axis in (-2, -1)]
        return torch.maximum(*along) / energy


def _whole_numbers(given: Any, what: str) -> list[int]:
    """A sequence of integers, also NumPy's or torch's, as a list."""
    try:
        numbers = [n for n in given if not isinstance(n, bool)]
        if len(numbers) == len(given):
            return [operator.index(n) for n in numbers]
    except TypeError:
        pass
    raise InputError(f"{what} must be integers. Got {given!r}.")


def low_rank(
    strengths: Float[Tensor, "*shape mode"],
    rows: Float[Tensor, "*shape mode row"],
    columns: Float[Tensor, "*shape mode column"],
) -> Float[Tensor, "*shape row column"]:
    """Σ_n λ⁽ⁿ⁾ v⁽ⁿ⁾ u⁽ⁿ⁾ᵀ with v and u normalized to unit length.

    Both lengths are divided out of λ, so that the vectors, by far the larger tensors, are read only once.
    """
    lengths = [vectors.square().sum(-1).clamp(min=SHORTEST**2).sqrt() for vectors in (rows, columns)]
    scaled = rows * (strengths / (lengths[0] * lengths[1])).unsqueeze(-1)
    return scaled.mT @ columns


def entropy(shares: Float[Tensor, "*shape mode"]) -> Float[Tensor, "*shape"]:
    """−Σ p ln p, with 0 ln 0 = 0."""
    return -torch.xlogy(shares, shares.clamp(min=torch.finfo(shares.dtype).tiny)).sum(-1)
