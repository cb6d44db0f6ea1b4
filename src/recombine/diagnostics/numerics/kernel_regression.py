"""Kernel regression of a model's outputs on the factor values: would a smooth interpolator give the same outputs?

Two kernels on the factor space, with distances d_i in grid steps (along the chord of the circle for cyclic factors,
between positions for unequally spaced values, and 1 between any two labels of a categorical factor):

- *factorized*: Π_i exp(−d_i² / 2ℓ_i²), with one length scale per factor;
- *radial*: exp(−Σ_i d_i² / 2ℓ²), with one length scale for all factors.

The length scales are chosen on ID cells alone, by their leave-one-out error; the OOD error is computed only afterwards.
If there are more than 64 combinations of lengths, or more than a budget allows, those of the factorized kernel are
searched factor by factor, starting from the best common length, until no single change is better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.core.errors import InputError, Missing, NotComputable
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.statistics import ratio
from recombine.diagnostics.numerics.budget import CALL, Budget
from recombine.diagnostics.numerics.grids import GridArray, as_rows, id_and_ood

KernelKind = Literal["factorized", "radial"]
LENGTHS = (0.5, 1.0, 2.0, 4.0)
RIDGE = 1e-6
MOST_CANDIDATES = 64  # up to this number, all combinations of lengths are tried
MOST_SWEEPS = 4  # maximum number of passes over the factors otherwise
LEAST_CELLS = 256  # minimum number of cells, regardless of the budget


@dataclass(frozen=True)
class KernelRegression:
    """Result of kernel regression of a model's outputs, fitted on ID cells.

    Attributes:
        kind: "factorized" or "radial".
        lengths: The chosen length scale of each factor, in grid steps (all equal for the radial kernel).
        id_error: Leave-one-out mean squared error on ID cells with these lengths.
        ood_error: Mean squared error on OOD cells of the fit to all ID cells.
        id_relative, ood_relative: The same errors divided by the mean square of the outputs of the split, so that
            predicting 0 gives 1; NaN if the outputs are all zero.
        candidates: (lengths, leave-one-out error) of all candidates that were tried.
        exhaustive: Whether all combinations of lengths were tried.
        ridge: λ of (K + λI)⁻¹.
    """

    kind: KernelKind
    lengths: dict[str, float]
    id_error: float
    ood_error: float
    id_relative: float
    ood_relative: float
    candidates: list[tuple[tuple[float, ...], float]]
    ridge: float
    exhaustive: bool = True


def factor_distances(
    space: FactorSpace, rows: Int[Tensor, " row"], columns: Int[Tensor, " column"]
) -> list[Float[Tensor, "row column"]]:
    """Squared distances between cells along each factor, in squared grid steps.

    A cyclic factor of N values lies on a circle of circumference N and uses the chord, d = (N/π) sin(π Δ/N), which
    keeps the kernels positive definite. Labels of a categorical factor are all 1 apart, like one-hot codes.
    """
    a, b = space.coordinates(rows).double(), space.coordinates(columns).double()
    squared = []
    for axis, factor in enumerate(space.factors.values()):
        d = a[:, None, axis] - b[None, :, axis]
        if factor.kind == "cyclic":
            d = factor.size / math.pi * torch.sin(math.pi * d / factor.size)
        elif factor.categorical:
            d = (d != 0).double()
        squared.append(d.square_())
    return squared


def kernel_regression(
    outputs: GridArray,
    space: FactorSpace,
    holdout: Holdout,
    kind: KernelKind = "factorized",
    *,
    lengths: Sequence[float] = LENGTHS,
    ridge: float = RIDGE,
    cells: Int[Tensor, " cell"] | None = None,
    budget: Budget | None = None,
) -> KernelRegression:
    """Fit ŷ(c) = k(c, ID) (K + λI)⁻¹ Y_ID for every candidate, select the best on ID cells, and score it on OOD cells.

    The leave-one-out residuals have a closed form: with C = (K + λI)⁻¹ they are (C Y)_i / C_ii. Ties are resolved in
    favour of shorter lengths. The cost grows with the cube of the number of ID cells. For large grids, pass `cells`,
    for example from `draw_cells`, with the number that `affordable_cells` returns. Combinations of lengths that exceed
    the budget are searched factor by factor.
    """
    rows = as_rows(outputs, space)
    id_mask, ood_mask = id_and_ood(holdout, space)
    if kind not in ("factorized", "radial"):
        raise InputError(f"The kernel must be factorized or radial. Got {kind!r} instead.")
    if not lengths or not all(math.isfinite(s) and s > 0 for s in lengths) or not ridge > 0:
        raise InputError(f"Length scales and ridge must be above 0. Got lengths={list(lengths)}, ridge={ridge}.")
    chosen = torch.arange(len(space)) if cells is None else cells.unique()
    trained, held = chosen[id_mask[chosen]], chosen[ood_mask[chosen]]
    if len(trained) < 3 or len(held) == 0:
        raise NotComputable(
            Missing.TOO_FEW_CELLS,
            f"Kernel regression needs at least 3 ID cells and 1 OOD cell. Got {len(trained)} and {len(held)}.",
        )
    known, wanted = rows[trained].double(), rows[held].double()
    among = factor_distances(space, trained, trained)
    search = _Search(among, known, ridge)
    budget = Budget() if budget is None or space.n_factors <= 2 else budget
    cost, combinations = _fit_cost(len(trained), rows.shape[1], space), len(lengths) ** space.n_factors
    exhaustive = kind == "radial" or combinations <= budget.affords(cost, MOST_CANDIDATES)
    if exhaustive and kind == "factorized":
        best = search.best(product(lengths, repeat=space.n_factors))
    else:
        best = search.best((length,) * space.n_factors for length in lengths)
    if not exhaustive:
        best = search.improved(best, lengths)
    budget.spend(cost * len(search.errors))
    error = search.errors[best]
    kernel = _rbf(among, best)
    kernel.diagonal().add_(ridge)
    weights = torch.cholesky_solve(known, torch.linalg.cholesky(kernel))
    predicted = _rbf(factor_distances(space, held, trained), best) @ weights
    ood_error = float((predicted - wanted).square().mean())
    return KernelRegression(
        kind,
        dict(zip(space.names, best)),
        error,
        ood_error,
        ratio(error, known.square().mean()),
        ratio(ood_error, wanted.square().mean()),
        list(search.errors.items()),
        ridge,
        exhaustive,
    )


def affordable_cells(space: FactorSpace, id_share: float, features: int, most: int, budget: Budget) -> int:
    """Number of cells for which a search factor by factor fits the budget, at least 256 and at most `most`.

    With two factors, which have 16 combinations of lengths, it is always `most`.
    """
    candidates = len(LENGTHS) + MOST_SWEEPS * space.n_factors * (len(LENGTHS) - 1)
    cells = most
    while space.n_factors > 2 and cells > LEAST_CELLS:
        if candidates * _fit_cost(round(cells * id_share), features, space) <= budget.left:
            break
        cells = max(LEAST_CELLS, cells * 7 // 8)
    return cells


def _fit_cost(trained: int, features: int, space: FactorSpace) -> int | float:
    """Operations needed for one leave-one-out error."""
    return 10 * CALL + trained**3 + trained**2 * (2 * features + 10 * space.n_factors)


Lengths = tuple[float, ...]


class _Search:
    """Leave-one-out errors of length scales. Results are cached."""

    def __init__(self, among: list[Float[Tensor, "id id"]], known: Float[Tensor, "id feature"], ridge: float) -> None:
        self.among, self.known, self.ridge = among, known, ridge
        self.errors: dict[Lengths, float] = {}

    def best(self, candidates: Iterable[Lengths]) -> Lengths:
        """The candidate with the smallest error; the first one in case of a tie."""
        listed = list(candidates)
        for lengths in listed:
            if lengths not in self.errors:
                self.errors[lengths] = _leave_one_out(_rbf(self.among, lengths), self.known, self.ridge)
        return min(listed, key=self.errors.__getitem__)

    def improved(self, start: Lengths, lengths: Sequence[float]) -> Lengths:
        """Change the length of one factor at a time for as long as the error decreases."""
        for _ in range(MOST_SWEEPS):
            before = start
            for axis in range(len(start)):
                start = self.best([start, *(start[:axis] + (length,) + start[axis + 1 :] for length in lengths)])
            if start == before:
                break
        return start


def _rbf(squared: list[Float[Tensor, "row column"]], lengths: tuple[float, ...]) -> Float[Tensor, "row column"]:
    exponent = torch.zeros_like(squared[0])
    for distance, length in zip(squared, lengths):
        exponent.add_(distance, alpha=-0.5 / length**2)
    return exponent.exp_()


def _leave_one_out(kernel: Float[Tensor, "id id"], known: Float[Tensor, "id feature"], ridge: float) -> float:
    kernel.diagonal().add_(ridge)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(kernel))
    residuals = (inverse @ known) / inverse.diagonal()[:, None]
    return float(residuals.square().mean())
