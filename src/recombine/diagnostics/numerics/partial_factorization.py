"""Partial factorization: the share of a representation or kernel in terms of few factors, and groupings of factors.

A representation h over the grid is a sum of orthogonal terms h_S, one per set S of factors (see `anova`). Its kernel
has one term K_S per set, the kernel of h_S, with the coefficient θ_S = mean over cells of K_S(c, c) = Σ_units V_S. For
a kernel matrix, θ_S = tr(P_S K) / cells, where P_S projects onto functions of exactly the factors in S. Both
definitions give the same number. The constant term (S = ∅) is omitted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.errors import InputError, Missing, NotComputable
from recombine.core.factors import FactorSpace
from recombine.diagnostics.numerics.anova import Term, subsets, variance_components
from recombine.diagnostics.numerics.grids import BLOCK, GridArray, as_rows, blocks
from recombine.diagnostics.numerics.kernel_spectra import kernel_tensor

MOST_FACTORS = 8  # limit of the search over groupings: Bell(8) = 4140
TOLERANCE = 0.05


@dataclass(frozen=True, eq=False)
class PartialFactorization:
    """The expansion of a kernel into single-factor, pairwise, … terms, and the share of selected terms.

    Attributes:
        names: Names of the factors.
        terms: The sets S of factors, single factors first.
        theta: The coefficient θ_S of each set; non-negative for a representation or a positive semi-definite kernel.
        weight: "absolute" (w = |θ|) or "square" (w = θ²).
    """

    names: tuple[str, ...]
    terms: tuple[tuple[str, ...], ...]
    theta: Float[np.ndarray, " term"]
    weight: Literal["absolute", "square"]

    @property
    def weights(self) -> Float[np.ndarray, " term"]:
        """w(θ_S)."""
        return np.abs(self.theta) if self.weight == "absolute" else np.square(self.theta)

    def coefficient(self, terms: Collection[Collection[str]]) -> float:
        """PF_Coeff^(S)(K) = Σ_{ℓ∈S} w(θ_ℓ) / Σ_ℓ w(θ_ℓ), in [0, 1] (Liang et al. 2025, Eq. 33)."""
        wanted = {frozenset(term) for term in terms}
        unknown = wanted - {frozenset(term) for term in self.terms}
        if unknown:
            raise InputError(f"Unknown terms over {', '.join(self.names)}: {sorted(map(sorted, unknown))}.")
        chosen = np.array([frozenset(term) in wanted for term in self.terms])
        return float(self.weights[chosen].sum() / self.weights.sum())

    @property
    def cumulative(self) -> Float[np.ndarray, " order"]:
        """The coefficient of all terms of up to 1, 2, … n factors; the last is 1."""
        orders = np.array([len(term) for term in self.terms])
        by_order = np.array([self.weights[orders == order].sum() for order in range(1, len(self.names) + 1)])
        return by_order.cumsum() / by_order.sum()


def partial_factorization(
    representation: GridArray,
    space: FactorSpace,
    *,
    weight: Literal["absolute", "square"] = "absolute",
    block: int = BLOCK,
    components: tuple[list[Term], Float[Tensor, "term unit"]] | None = None,
) -> PartialFactorization:
    """Expand activations or outputs of shape (cells, …) into terms.

    A purely factorized representation (a sum of single-factor functions) has all weight in single-factor terms. Pure
    memorization (an unrelated output for every cell) has most weight in the n-factor term, which has Π (N_i − 1) of the
    cells − 1 dimensions.

    Pass `components` to reuse the `variance_components` of the same representation.

    Raises:
        InputError: If the representation is constant over the grid.
    """
    rows = as_rows(representation, space, "representation")
    terms, by_unit = components or variance_components(rows, space, block=block)
    theta = by_unit.sum(1)
    mean_square = sum(float(slab.square().sum()) for slab in blocks(rows, block)) / len(space)
    if float(theta.sum()) <= 1e-24 * mean_square:
        raise NotComputable(
            Missing.DEGENERATE, "The representation does not vary over the grid, so there is nothing to factorize."
        )
    return _expansion(terms, theta, space, weight)


def partial_factorization_of_kernel(
    kernel: Float[Tensor, "cell cell"] | Float[np.ndarray, "cell cell"],
    space: FactorSpace,
    *,
    weight: Literal["absolute", "square"] = "absolute",
) -> PartialFactorization:
    """Expand a kernel matrix over all cells, with rows in cell order, into terms."""
    tensor = kernel_tensor(kernel, space)
    size = float(tensor.abs().max())
    for count in space.shape:  # for each factor, the trace with J/N (mean over the factor) and with I − J/N
        mean = torch.full((count, count), 1 / count, dtype=torch.float64)
        functionals = torch.stack([mean, torch.eye(count, dtype=torch.float64) - mean]).flatten(1)
        tensor = torch.einsum("p...,kp->...k", tensor, functionals)
    terms = subsets(range(space.n_factors))
    chosen = [tensor[tuple(int(axis in term) for axis in range(space.n_factors))] for term in terms]
    theta = torch.stack(chosen) / len(space)
    if float(theta.abs().sum()) <= 1e-12 * size:
        raise NotComputable(
            Missing.DEGENERATE, "The kernel is the same for all pairs of cells, so there is nothing to factorize."
        )
    return _expansion(terms, theta, space, weight)


def _expansion(
    terms: list[Term], theta: Float[Tensor, " term"], space: FactorSpace, weight: Literal["absolute", "square"]
) -> PartialFactorization:
    if weight not in ("absolute", "square"):
        raise InputError(f"The weight of a term must be absolute or square. Got {weight!r} instead.")
    named = tuple(tuple(space.names[axis] for axis in term) for term in terms)
    return PartialFactorization(space.names, named, theta.numpy(), weight)


Grouping = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class FactorGrouping:
    """The grouping of the factors that explains a representation.

    Attributes:
        groups: The finest grouping with a score of at least 1 − tolerance; a single group of all factors otherwise.
        score: Share of the variance explained by a sum of functions of one group each, in [0, 1].
        tolerance: Share of the variance that may remain unexplained.
        candidates: Every grouping with its score, finest first, then best first.
    """

    groups: Grouping
    score: float
    tolerance: float
    candidates: tuple[tuple[Grouping, float], ...]


def find_grouping(
    representation: GridArray, space: FactorSpace, *, tolerance: float = TOLERANCE, block: int = BLOCK
) -> FactorGrouping:
    """Search all groupings (set partitions) of the factors, for example {x, y}, {z}.

    The score of a grouping is Σ V_S / Σ V over the terms S that lie within one group, where V is the total variance of
    all units. It is 1 if the representation is a sum of functions of single groups. Linear invertible maps of the units
    preserve this property. Nonlinear maps may not, so a low score does not rule out a factorization. A single group of
    all factors always has a score of 1. The result is the grouping with the most groups whose score is at least
    1 − tolerance. Among several of these, it is the one with the highest score.

    Raises:
        InputError: If there are more than 8 factors (4140 groupings), or if the representation is constant.
    """
    _check_search(space.n_factors, tolerance)
    return grouping_of(partial_factorization(representation, space, block=block), tolerance=tolerance)


def grouping_of(expansion: PartialFactorization, *, tolerance: float = TOLERANCE) -> FactorGrouping:
    """Like `find_grouping`, for an existing expansion."""
    names, theta = expansion.names, expansion.theta
    _check_search(len(names), tolerance)
    scored: list[tuple[Grouping, float]] = []
    terms = np.array([sum(1 << names.index(name) for name in term) for term in expansion.terms])
    for partition in set_partitions(range(len(names))):
        groups = tuple(tuple(names[axis] for axis in group) for group in partition)
        masks = np.array([sum(1 << axis for axis in group) for group in partition])
        within = (terms[:, None] & ~masks == 0).any(1)  # all of a term's factors are in one group
        scored.append((groups, min(1.0, float(theta[within].sum() / theta.sum()))))
    scored.sort(key=lambda candidate: (-len(candidate[0]), -candidate[1]))
    groups, score = next(c for c in scored if c[1] >= 1 - tolerance - 1e-12)
    return FactorGrouping(groups, score, tolerance, tuple(scored))


def _check_search(n_factors: int, tolerance: float) -> None:
    if n_factors > MOST_FACTORS:
        raise NotComputable(
            Missing.TOO_LARGE, f"The search for groupings supports up to {MOST_FACTORS} factors. Got {n_factors}."
        )
    if not 0 <= tolerance < 1:
        raise InputError(f"The tolerance must be a share of the variance, at least 0 and below 1. Got {tolerance}.")


def set_partitions(items: Sequence[int]) -> Iterator[list[Term]]:
    """All partitions of the items into groups. Their number is the Bell number."""
    if not items:
        yield []
        return
    first, *others = items
    for partition in set_partitions(others):
        yield [(first,), *partition]
        for index, group in enumerate(partition):
            yield [*partition[:index], (first, *group), *partition[index + 1 :]]
