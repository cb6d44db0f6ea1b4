"""Functional analysis of variance over the grid (Hoeffding decomposition).

A function h of n factors, taken over all cells with equal weight, is a sum of orthogonal terms, one per set S of
factors: h = Σ_S h_S. The term h_S depends only on the factors of S and averages to zero over each of them. The variance
is therefore a sum over single factors, pairs, …: Var h = Σ_{S≠∅} V_S with V_S = mean(h_S²).

With U_S = Var(E[h | factors in S]) the terms are V_S = Σ_{T⊆S} (−1)^{|S|−|T|} U_T.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.core.errors import Missing, NotComputable
from recombine.core.factors import FactorSpace
from recombine.diagnostics.numerics.grids import BLOCK, enumerate_blocks

MOST_FACTORS = 10  # there are 2ⁿ terms, and each is computed from up to 2ⁿ others
Term = tuple[int, ...]  # axes of the factors a term depends on, ascending


def subsets(axes: Sequence[int], *, empty: bool = False) -> list[Term]:
    """All sets of axes, smaller ones first; optionally including the empty set."""
    orders = range(0 if empty else 1, len(axes) + 1)
    return list(chain.from_iterable(combinations(axes, order) for order in orders))


def variance_components(
    rows: Shaped[Tensor, "cell unit"], space: FactorSpace, *, block: int = BLOCK
) -> tuple[list[Term], Float[Tensor, "term unit"]]:
    """V_S of every unit for every non-empty set S of factors, small sets first.

    The terms of a unit add up to its variance over the grid (with 1/cells, not 1/(cells − 1)). Negative rounding errors
    are set to 0.

    Raises:
        NotComputable: If there are more than 10 factors.
    """
    if space.n_factors > MOST_FACTORS:
        raise NotComputable(
            Missing.TOO_LARGE,
            f"The expansion into terms supports up to {MOST_FACTORS} factors. Got {space.n_factors}.",
        )
    terms = subsets(range(space.n_factors))
    result = torch.empty(len(terms), rows.shape[1], dtype=torch.float64)
    for start, slab in enumerate_blocks(rows, block):
        grid = (slab - slab.mean(0)).reshape(*space.shape, -1)
        explained: dict[Term, Tensor] = {}
        for term in terms:
            others = [axis for axis in range(space.n_factors) if axis not in term]
            means = grid.mean(others) if others else grid
            explained[term] = means.square().flatten(0, -2).mean(0)
        for index, term in enumerate(terms):
            value = sum((-1) ** (len(term) - len(part)) * explained[part] for part in subsets(term))
            result[index, start : start + slab.shape[1]] = torch.as_tensor(value).clamp_min(0)
    return terms, result
