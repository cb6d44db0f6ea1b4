"""Compositional complexity: the number of products of single-factor functions in a function, distribution or kernel.

- A function f over the grid: the smallest R with f = Σ_{r≤R} Π_i φ_i^(r)(x_i), exactly (R*) or within ε (R_ε)
  (Liang et al. 2025, Eqs. 16–17).
- A joint distribution p: the smallest number of product distributions with a mixture within ε of p in Kullback–Leibler
  divergence or total variation (Eqs. 19–20).
- A kernel: its CP rank (Eq. 31).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.seeds import generator
from recombine.diagnostics.numerics.budget import CALL, Budget
from recombine.diagnostics.numerics.grids import GridArray, as_rows
from recombine.diagnostics.numerics.kernel_spectra import kernel_tensor
from recombine.diagnostics.numerics.tensor_rank import EXACT, INITS, RankSearch, least_ranks, rank_search

EPSILON = 0.05
LARGEST = 16
APPROXIMATE_SHARE = 3  # budget for R_ε relative to R*, whose search fails for most networks
LEAST_STEPS = 20  # minimum number of steps of a fit that a budget cuts short


@dataclass(frozen=True, eq=False)
class FunctionComplexity:
    """R* and R_ε of a function over the grid.

    Attributes:
        exact: Number of products that reproduce the function to a relative error of 1e-6; None if the largest number
            tried was not enough.
        approximate: The same for a relative error of `epsilon`.
        epsilon: Relative error ‖f − f_R‖ / ‖f‖. For a function with several outputs, it is relative to the largest.
        exact_ranks, approximate_ranks: Ranks of each output; −1 if the largest number tried was not enough. An output
            that is smaller than the tolerated error has rank 0.
        proven: Whether smaller ranks are impossible for every output. Always True for two factors.
        complete: False if a budget cut the search short, so that smaller ranks may have been missed.
    """

    exact: int | None
    approximate: int | None
    epsilon: float
    exact_ranks: Int[np.ndarray, " output"]
    approximate_ranks: Int[np.ndarray, " output"]
    proven: bool
    complete: bool = True


def function_complexity(
    values: GridArray,
    space: FactorSpace,
    *,
    epsilon: float = EPSILON,
    largest: int = LARGEST,
    inits: int = INITS,
    seed: int = 0,
    budget: Budget | None = None,
) -> FunctionComplexity:
    """Exact rank and ε-rank of a sampled function, by SVD (two factors) or CP fits of increasing rank (more factors).

    For a function with several outputs, the products are vector-valued, Σ_r Π_i φ_i^(r) for each output, so its rank is
    the largest rank of any output. With three or more factors, every output requires many fits, so pass few outputs.

    Args:
        values: Values of the function, of shape (cells, …). All axes except the first are outputs.
        space: The factor space.
        epsilon: Relative error tolerated by R_ε, in (0, 1).
        largest: Largest number of terms to try with three or more factors.
        inits: Number of fits per rank.
        seed: Seed of the random starts.
        budget: Bounds the fits; unlimited if not given.
    """
    rows = as_rows(values, space, "values").double()
    if not 0 < epsilon < 1:
        raise InputError(f"epsilon must be a relative error between 0 and 1. Got {epsilon}.")
    scale = float(torch.linalg.vector_norm(rows, dim=0).max())
    if sum(size > 1 for size in space.shape) <= 2:
        sides = [*(size for size in space.shape if size > 1), 1, 1][:2]
        matrices = rows.T.reshape(-1, *sides)
        exact, approximate = least_ranks(matrices, [EXACT * scale, epsilon * scale])
        return FunctionComplexity(int(exact.max()), int(approximate.max()), epsilon, exact, approximate, proven=True)
    budget = Budget() if budget is None else budget
    searches: dict[float, list[RankSearch]] = {epsilon: [], EXACT: []}
    remaining = (APPROXIMATE_SHARE + 1) * rows.shape[1]
    for allowed, found in searches.items():
        part = 1 if allowed == EXACT else APPROXIMATE_SHARE
        for output in rows.T:
            found.append(
                rank_search(
                    output.reshape(space.shape), epsilon=allowed, scale=scale, largest=largest, inits=inits, seed=seed,
                    budget=budget.share(remaining / part), hopeless=False,
                )
            )  # fmt: skip
            remaining -= part
    exactly, nearly = searches[EXACT], searches[epsilon]
    return FunctionComplexity(
        exact=_highest(exactly),
        approximate=_highest(nearly),
        epsilon=epsilon,
        exact_ranks=_as_array(exactly),
        approximate_ranks=_as_array(nearly),
        proven=all(search.proven for search in exactly + nearly),
        complete=all(search.complete for search in exactly + nearly),
    )


def _highest(searches: list[RankSearch]) -> int | None:
    ranks = [search.rank for search in searches]
    return None if None in ranks else max(rank for rank in ranks if rank is not None)


def _as_array(searches: list[RankSearch]) -> Int[np.ndarray, " output"]:
    return np.array([-1 if search.rank is None else search.rank for search in searches])


def kernel_complexity(
    kernel: Float[Tensor, "cell cell"] | Float[np.ndarray, "cell cell"],
    space: FactorSpace,
    *,
    epsilon: float = EXACT,
    largest: int = LARGEST,
    inits: int = INITS,
    seed: int = 0,
) -> RankSearch:
    """CP rank of a kernel: the smallest number of products of single-factor kernels that add up to it.

    It is 1 for a purely factorized kernel K = Π_j k_j. The kernel is a (cells, cells) matrix in cell order. The default
    `epsilon` gives the exact rank, to a relative error of 1e-6.
    """
    tensor = kernel_tensor(kernel, space)
    return rank_search(tensor, epsilon=epsilon, largest=largest, inits=inits, seed=seed)


@dataclass(frozen=True, eq=False)
class DistributionComplexity:
    """The number of product distributions in a mixture that approximates a joint distribution.

    Attributes:
        rank: Smallest number found with a divergence of at most `epsilon`; None if not reached. Fits may miss a better
            mixture, so this is an upper bound.
        lower_bound: Lower bound of the number (see `distribution_complexity`).
        measure: "kl" (nats) or "tv" (in [0, 1]).
        epsilon: The tolerated divergence.
        tried: The numbers of products that were tried.
        kl: For each of them, the smallest KL(p ‖ q) in nats.
        tv: For each of them, the smallest total variation, ½ Σ |p − q|.
        weights: Mixture weights for the last number tried, largest first.
        complete: False if a budget left out fits or steps.
    """

    rank: int | None
    lower_bound: int
    measure: Literal["kl", "tv"]
    epsilon: float
    tried: tuple[int, ...]
    kl: Float[np.ndarray, " rank"]
    tv: Float[np.ndarray, " rank"]
    weights: Float[np.ndarray, " term"]
    complete: bool = True

    @property
    def proven(self) -> bool:
        """Whether a smaller number is impossible."""
        return self.rank == self.lower_bound


def distribution_complexity(
    probabilities: GridArray,
    space: FactorSpace,
    *,
    measure: Literal["kl", "tv"] = "kl",
    epsilon: float = 1e-3,
    largest: int = LARGEST,
    inits: int = INITS,
    seed: int = 0,
    iterations: int = 3000,
    budget: Budget | None = None,
) -> DistributionComplexity:
    """Fit mixtures of 1, 2, … product distributions to a joint distribution until the divergence is at most `epsilon`.

    Each mixture is a latent class model, fitted by expectation–maximization (EM) from several seeded starts. EM never
    increases KL(p ‖ q). The lower bound holds because the unfoldings of a mixture of R products have matrix rank at
    most R. For every q, TV ≥ ½‖p − q‖_F and KL ≥ 2 TV² (Pinsker), so the best rank-R matrix bounds both divergences.

    Args:
        probabilities: One non-negative number per cell, of shape (cells,). Normalized to a sum of 1, so counts are
            allowed.
        space: The factor space.
        measure: The divergence that `epsilon` refers to.
        epsilon: Tolerated divergence.
        largest: Largest number of products to try.
        inits: Number of fits per number of products.
        seed: Seed of the random starts.
        iterations: Maximum number of EM steps per fit.
        budget: Bounds the fits; unlimited by default. At least one fit is made, even if it exceeds the budget.
    """
    joint = _joint(probabilities, space)
    if measure not in ("kl", "tv") or not (math.isfinite(epsilon) and epsilon > 0) or largest < 1 or inits < 1:
        raise InputError(
            f"Requires measure kl or tv, epsilon > 0, largest ≥ 1 and inits ≥ 1. Got {measure!r}, {epsilon}, "
            f"{largest}, {inits}."
        )
    bound = _lower_bound(joint, measure, epsilon)
    tried: list[int] = []
    kls: list[float] = []
    tvs: list[float] = []
    found, weights, complete = None, np.zeros(0), True
    budget = Budget() if budget is None else budget
    for rank in range(1, largest + 1):
        fits, cut = _fits(joint, rank, inits if rank > 1 else 1, (measure, epsilon), (seed, iterations),
                          budget.share(largest + 1 - rank))  # fmt: skip
        if not fits:
            complete = False
            break
        best = min(fits, key=lambda fit: fit.kl if measure == "kl" else fit.tv)
        tried.append(rank)
        kls.append(min(fit.kl for fit in fits))
        tvs.append(min(fit.tv for fit in fits))
        weights = best.weights
        if (kls if measure == "kl" else tvs)[-1] <= epsilon:
            found = rank
            break
        complete &= not cut
    kl, tv = np.array(kls), np.array(tvs)
    return DistributionComplexity(found, bound, measure, epsilon, tuple(tried), kl, tv, weights, complete)


def _fits(
    joint: Float[Tensor, "*factor"],
    rank: int,
    inits: int,
    goal: tuple[Literal["kl", "tv"], float],
    random: tuple[int, int],
    budget: Budget,
) -> tuple[list[Mixture], bool]:
    """Fit mixtures of one rank until one meets the goal. Also returns whether the budget left out fits or steps.

    Rank 1 is always fitted, regardless of the budget.
    """
    (measure, epsilon), (seed, iterations) = goal, random
    cost = _step_cost(joint, rank)
    fits: list[Mixture] = []
    for attempt in range(inits):
        steps = budget.affords(cost, iterations)
        if steps < LEAST_STEPS and steps < iterations:
            if fits or rank > 1:
                return fits, True
            steps = LEAST_STEPS
        start = generator(seed, "mixture", rank, attempt)
        fits.append(_fit_mixture(joint, rank, start, steps, epsilon if measure == "kl" else 0.0))
        budget.spend(cost * len(fits[-1].history))
        if (fits[-1].kl if measure == "kl" else fits[-1].tv) <= epsilon:
            return fits, False
        if len(fits[-1].history) == steps < iterations:
            return fits, True
    return fits, False


def _step_cost(joint: Float[Tensor, "*factor"], rank: int) -> int | float:
    """Operations of one step of expectation–maximization."""
    return 8 * joint.ndim * CALL + 6 * joint.ndim * joint.numel() * rank


@dataclass(frozen=True, eq=False)
class Mixture:
    """Σ_r λ_r Π_i p_i^(r), fitted to a joint distribution.

    Attributes:
        weights: λ, largest first. They sum to 1.
        factors: The distributions p_i^(r) of each factor i. Every column sums to 1.
        kl, tv: Divergences from the joint distribution.
        history: KL(p ‖ q) after every EM step. It never increases.
    """

    weights: Float[np.ndarray, " term"]
    factors: list[Float[np.ndarray, "_ term"]]
    kl: float
    tv: float
    history: list[float]


def fit_mixture(
    probabilities: GridArray, space: FactorSpace, rank: int, *, seed: int = 0, iterations: int = 3000
) -> Mixture:
    """Fit a mixture of `rank` product distributions by expectation–maximization from one seeded start."""
    if rank < 1:
        raise InputError(f"A mixture must have at least one product. Got rank={rank}.")
    return _fit_mixture(_joint(probabilities, space), rank, generator(seed, "mixture", rank, 0), iterations, 0.0)


def _joint(probabilities: GridArray, space: FactorSpace) -> Float[Tensor, "*factor"]:
    rows = as_rows(probabilities, space, "probabilities").double()
    if rows.shape[1] != 1 or float(rows.min()) < 0 or float(rows.sum()) <= 0:
        raise InputError(
            f"A joint distribution must have one non-negative number per cell, not all 0. Got {rows.shape[1]} per "
            f"cell with a minimum of {float(rows.min()):g}."
        )
    return (rows / rows.sum()).reshape(space.shape)


def _fit_mixture(
    joint: Float[Tensor, "*factor"], rank: int, random: torch.Generator, iterations: int, enough: float
) -> Mixture:
    """Alternate between the responsibilities of the products for each cell and the parameters of the mixture (EM).

    Stops when the KL divergence reaches `enough`, or when 10 steps reduce it by less than a relative 1e-9.
    """
    axes = range(joint.ndim)
    weights = torch.full((rank,), 1 / rank, dtype=torch.float64)
    factors = []
    for axis, size in enumerate(joint.shape):
        marginal = joint.sum([a for a in axes if a != axis]) if joint.ndim > 1 else joint
        noise = torch.rand(size, rank, generator=random, dtype=torch.float64) + 0.05
        start = marginal[:, None] * noise
        factors.append(start / start.sum(0))
    entropy = torch.special.xlogy(joint, joint).sum()
    history: list[float] = []
    mixed = joint
    for step in range(iterations):
        products = weights * torch.ones(*joint.shape, rank, dtype=torch.float64)
        for axis, factor in enumerate(factors):
            products *= factor.reshape([-1 if a == axis else 1 for a in axes] + [rank])
        mixed = products.sum(-1)
        history.append(max(0.0, float(entropy - torch.special.xlogy(joint, mixed).sum())))
        if history[-1] <= enough or (step >= 10 and history[-11] - history[-1] <= 1e-9 * history[-11]):
            break
        responsible = products * torch.where(joint > 0, joint / mixed, 0.0)[..., None]
        weights = responsible.sum(list(axes))
        for axis in axes:
            total = responsible.sum([a for a in axes if a != axis]) if joint.ndim > 1 else responsible
            factors[axis] = total / weights.clamp_min(1e-300)
    order = weights.argsort(descending=True)
    tv = 0.5 * float((joint - mixed).abs().sum())
    return Mixture(weights[order].numpy(), [factor[:, order].numpy() for factor in factors], history[-1], tv, history)


def _lower_bound(joint: Float[Tensor, "*factor"], measure: str, epsilon: float) -> int:
    """Smallest R for which the best rank-R unfoldings do not rule out a divergence of at most ε; at least 1."""
    allowed = 2 * epsilon if measure == "tv" else math.sqrt(2 * epsilon)
    bound = 1
    for axis in range(joint.ndim):
        squares = torch.linalg.svdvals(joint.movedim(axis, 0).flatten(1) if joint.ndim > 1 else joint[:, None]).square()
        tails = torch.cat([squares.flip(0).cumsum(0).flip(0), squares.new_zeros(1)]).sqrt()
        bound = max(bound, int((tails <= allowed).int().argmax()))
    return bound
