"""Spectrum of a kernel: its expansion into products of single-factor kernels.

K = Σ_r λ_r Π_j k_j^(r) (Liang et al. 2025, Eqs. 1 and 30) is the operator Schmidt decomposition for two factors and a
CP decomposition for more factors. A single term means that the kernel treats the factors independently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.errors import InputError, Missing, NotComputable
from recombine.core.factors import FactorSpace
from recombine.diagnostics.numerics.budget import Budget
from recombine.diagnostics.numerics.tensor_rank import EXACT, INITS, rank_search

LARGEST_KERNEL = 2**24  # maximum number of entries of a kernel matrix (4096 cells)


@dataclass(frozen=True, eq=False)
class KernelSpectrum:
    """The weights λ_r of a kernel's product terms and their effective number.

    Attributes:
        method: "schmidt" (two factors: all terms, which are orthogonal) or "cp" (more factors: the terms of one fit;
            they are not orthogonal, so their shares are only indicative).
        weights: λ_r ≥ 0, largest first. Each factor of a term has norm 1.
        participation_ratio: 1 / Σ p_r² with p_r = λ_r² / Σ λ², from 1 to the number of terms.
        entropy_rank: exp(−Σ p_r ln p_r), in the same range. It is never below the participation ratio.
        rank: Number of terms for a relative error of at most `epsilon`; None if `largest` terms were not enough.
        error: Relative error of the sum of the terms; 0 for "schmidt", which keeps all terms.
        epsilon: Relative error that `rank` refers to.
        complete: False if a budget cut the search for product terms short.
    """

    method: Literal["schmidt", "cp"]
    weights: Float[np.ndarray, " term"]
    participation_ratio: float
    entropy_rank: float
    rank: int | None
    error: float
    epsilon: float
    complete: bool = True


def kernel_tensor(
    kernel: Float[Tensor, "cell cell"] | Float[np.ndarray, "cell cell"], space: FactorSpace
) -> Float[Tensor, "*pair"]:
    """Rearrange a kernel matrix in cell order into a tensor with one mode per factor, over pairs of values (v, v′)."""
    matrix = torch.as_tensor(kernel).double()
    if matrix.shape != (len(space), len(space)):
        raise InputError(
            f"A kernel over {space} must have shape ({len(space)}, {len(space)}), with rows and columns in cell "
            f"order. Got {tuple(matrix.shape)}."
        )
    if matrix.numel() > LARGEST_KERNEL:
        raise NotComputable(
            Missing.TOO_LARGE, f"A kernel of {len(space)} cells is too large to decompose. Use a coarser grid."
        )
    if not bool(matrix.isfinite().all()):
        raise NotComputable(
            Missing.DEGENERATE, "The kernel contains NaN or infinite numbers (an all-zero output has no cosine)."
        )
    n = space.n_factors
    pairs = matrix.reshape(*space.shape, *space.shape).permute([a for i in range(n) for a in (i, n + i)])
    return pairs.reshape([size**2 for size in space.shape])


def kernel_spectrum(
    kernel: Float[Tensor, "cell cell"] | Float[np.ndarray, "cell cell"],
    space: FactorSpace,
    *,
    epsilon: float = EXACT,
    largest: int = 16,
    inits: int = INITS,
    seed: int = 0,
    budget: Budget | None = None,
) -> KernelSpectrum:
    """Schmidt spectrum (two factors) or CP spectrum (more factors) of a kernel over all cells, with rows in cell order.

    Raises:
        InputError: If there is only one factor, or if the kernel has a wrong shape, contains NaN, is zero everywhere or
            has more than 4096 cells.
    """
    if space.n_factors < 2:
        raise NotComputable(Missing.NOT_APPLICABLE, f"A kernel spectrum requires at least two factors. Got {space}.")
    tensor = kernel_tensor(kernel, space)
    search = rank_search(tensor, epsilon=epsilon, largest=largest, inits=inits, seed=seed, budget=budget)
    if not search.weights.any():
        raise NotComputable(Missing.DEGENERATE, "The kernel is zero everywhere and has no spectrum.")
    participation, entropy = effective_ranks(search.weights)
    method: Literal["schmidt", "cp"] = "schmidt" if space.n_factors == 2 else "cp"
    return KernelSpectrum(
        method, search.weights, participation, entropy, search.rank, float(search.errors[-1]), epsilon, search.complete
    )


def effective_ranks(weights: Float[np.ndarray, " term"]) -> tuple[float, float]:
    """Participation ratio and exponential of the entropy of the shares λ² / Σ λ²; NaN if all weights are zero."""
    if not weights.any():
        return float("nan"), float("nan")
    squares = np.square(weights / np.abs(weights).max())
    shares = squares / squares.sum()
    seen = shares[shares > 0]
    return float(1 / np.sum(seen**2)), float(np.exp(-np.sum(seen * np.log(seen))))
