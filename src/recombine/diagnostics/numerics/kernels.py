"""Similarity of a model's outputs: Gram matrices over the grid, and the kernel "shares a factor value".

    grams = gram_matrices(outputs, space, holdout)
    grams.matrices["cosine"]                       # (cell, cell), ID cells first
    agreement(grams, "overlap", seed=0)            # correlation with the binary factorized kernel, OOD × ID

A model that memorizes maps a new combination onto all trained combinations that share a factor value with it. The
similarity of its OOD and ID outputs then follows the binary factorized kernel (Liang et al. 2025, Eq. 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from recombine.core.errors import InputError, Missing, NotComputable
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.seeds import generator
from recombine.diagnostics.numerics.anova import subsets
from recombine.diagnostics.numerics.budget import CALL, Budget
from recombine.diagnostics.numerics.grids import GridArray, as_rows, blocks, id_and_ood

Similarity = Literal["cosine", "l2", "overlap"]
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "l2", "overlap")
NEAR = 1e-6  # squared distances below this share of the squared norms are recomputed from differences
ROUNDING = 64  # overlaps below this many units in the last place are set to 0
DRAWS = 1000
LEAST_DRAWS = 99  # minimum number of draws, regardless of the budget
DRAWS_AT_ONCE = 50  # bounds the memory to this many numbers per OOD cell
LARGEST_TABLE = 2**26  # numbers in the sums over all sets of factors (512 MB)


@dataclass(frozen=True, eq=False)
class GramMatrices:
    """Similarities of all pairs of outputs. ID rows and columns come first.

    Attributes:
        space: The factor space.
        cells: The cell of each row and column: `n_id` ID cells, then the OOD cells, each in ascending order.
        n_id: Number of ID rows.
        matrices: *cosine* in [−1, 1], *l2* (a distance) in [0, ∞), *overlap* in [0, 1]; see `gram_matrices`.
    """

    space: FactorSpace
    cells: Int[np.ndarray, " cell"]
    n_id: int
    matrices: dict[str, Float[np.ndarray, "cell cell"]]

    def ood_by_id(self, similarity: str) -> Float[np.ndarray, "ood id"]:
        """The block of similarities between held-out and trained outputs."""
        return self[similarity][self.n_id :, : self.n_id]

    def __getitem__(self, similarity: str) -> Float[np.ndarray, "cell cell"]:
        if similarity not in self.matrices:
            raise InputError(f"The similarity {similarity!r} was not computed. Computed: {', '.join(self.matrices)}.")
        return self.matrices[similarity]

    def in_cell_order(self, similarity: str) -> Float[np.ndarray, "cell cell"]:
        """The matrix with rows and columns in cell order, as required by `kernel_spectrum`."""
        order = np.argsort(self.cells)
        return self[similarity][np.ix_(order, order)]


def gram_matrices(
    outputs: GridArray,
    space: FactorSpace,
    holdout: Holdout,
    *,
    similarities: Sequence[Similarity] = SIMILARITIES,
    cells: Int[Tensor, " cell"] | None = None,
    overlap_dtype: torch.dtype = torch.float64,
) -> GramMatrices:
    """Gram matrices of a model's outputs a, b (flattened images), with ID cells first.

    - *cosine*: ⟨a, b⟩ / ‖a‖‖b‖; NaN if an output is all zero.
    - *l2*: ‖a − b‖, a distance.
    - *overlap*: Σ min(a⁺, b⁺) / Σ max(a⁺, b⁺) over pixels, with a⁺ = max(a, 0): the share of brightness that two images
      have in common (Ruzicka similarity). NaN if neither image has a positive pixel.

    Each matrix needs cells² numbers, plus blocks of bounded size. For grids of many thousand cells, pass `cells`, for
    example from `draw_cells`. The overlap takes most of the time. With `overlap_dtype=torch.float32`, it takes a third
    of the time and has about seven digits.
    """
    rows = as_rows(outputs, space)
    trained, ood = id_and_ood(holdout, space)
    unknown = [s for s in similarities if s not in SIMILARITIES]
    if unknown or not similarities:
        raise InputError(f"Similarities must be among {', '.join(SIMILARITIES)}. Got {list(similarities)}.")
    chosen = torch.arange(len(space)) if cells is None else cells.unique()
    if len(chosen) and not (int(chosen[0]) >= 0 and int(chosen[-1]) < len(space)):
        raise InputError(f"Cells are numbered 0 to {len(space) - 1}. Got {int(chosen[0])} to {int(chosen[-1])}.")
    order = torch.cat([chosen[trained[chosen]], chosen[ood[chosen]]])
    rows = rows[order]
    matrices: dict[str, np.ndarray] = {}
    if "cosine" in similarities or "l2" in similarities:
        products = _inner_products(rows)
        if "cosine" in similarities:
            matrices["cosine"] = _cosine(products).numpy()
        if "l2" in similarities:
            matrices["l2"] = _distances(rows, products).numpy()
    if "overlap" in similarities:
        matrices["overlap"] = _overlap(rows, overlap_dtype).numpy()
    n_id = int(trained[chosen].sum())
    return GramMatrices(space, order.numpy(), n_id, {s: matrices[s] for s in similarities})


def _inner_products(rows: Shaped[Tensor, "cell feature"]) -> Float[Tensor, "cell cell"]:
    total = torch.zeros(len(rows), len(rows), dtype=torch.float64)
    for block in blocks(rows):
        total.addmm_(block, block.T)
    return total.add_(total.T.clone()).mul_(0.5)  # matrix products are symmetric only up to rounding


def _cosine(products: Float[Tensor, "cell cell"]) -> Float[Tensor, "cell cell"]:
    norms = products.diagonal().sqrt()
    norms = torch.where(norms > 0, norms, torch.nan)
    cosine = torch.div(products, torch.outer(norms, norms)).clamp_(-1, 1)
    here = ~norms.isnan()
    cosine.diagonal()[here] = 1
    return cosine


def _distances(
    rows: Shaped[Tensor, "cell feature"], products: Float[Tensor, "cell cell"]
) -> Float[Tensor, "cell cell"]:
    """√(‖a‖² + ‖b‖² − 2⟨a, b⟩). Where this would cancel, distances are computed from the differences."""
    squares = products.diagonal().clone()
    scale = squares[:, None] + squares[None, :]
    distances = torch.add(scale, products, alpha=-2)
    near = (distances <= NEAR * scale).triu_(1).nonzero()
    step = max(1, 2**21 // rows.shape[1])
    for pairs in near.split(step):
        exact = (rows[pairs[:, 0]].double() - rows[pairs[:, 1]].double()).square().sum(1)
        distances[pairs[:, 0], pairs[:, 1]] = exact
        distances[pairs[:, 1], pairs[:, 0]] = exact
    distances.fill_diagonal_(0)
    return distances.clamp_min_(0).sqrt_()


def _overlap(rows: Shaped[Tensor, "cell feature"], dtype: torch.dtype) -> Float[Tensor, "cell cell"]:
    """Σ min = (Σa + Σb − Σ|a − b|) / 2 and Σ max = (Σa + Σb + Σ|a − b|) / 2, so one L1 distance gives both.

    Values within rounding error are set to 0. Otherwise, the agreement of outputs without any overlap would depend on
    rounding errors, and so on the scale of the outputs.
    """
    count = len(rows)
    upper, lower = torch.triu_indices(count, count, 1)
    apart = torch.zeros(count * (count - 1) // 2, dtype=torch.float64)
    light = torch.zeros(count, dtype=torch.float64)
    for block in blocks(rows):
        positive = block.clamp_min_(0)
        apart += torch.pdist(positive.to(dtype), p=1.0)
        light += positive.sum(1)
    both = light[upper] + light[lower]
    overlap = torch.where(light > 0, 1.0, torch.nan).double().diag()
    shared = ((both - apart) / (both + apart)).clamp_(0, 1)  # 0/0 is NaN: neither image has a positive pixel
    shared[shared < ROUNDING * torch.finfo(dtype).eps] = 0
    overlap[upper, lower] = shared
    overlap[lower, upper] = shared
    return overlap


def binary_factorized_kernel(
    space: FactorSpace, rows: Int[Tensor, " row"], columns: Int[Tensor, " column"]
) -> Float[Tensor, "row column"]:
    """Binary factorized kernel K_bin between cells: 1 if two cells share the value of at least one factor, else 0.

    With k_i = δ, K_bin = 1 − Π_i (1 − k_i). For two factors, this is k_x + k_y − k_x·k_y (Liang et al. 2025, Eq. 3).
    The diagonal is 1, so normalizing by √(K_aa K_bb) does not change the kernel.
    """
    a, b = space.coordinates(rows), space.coordinates(columns)
    shared = torch.zeros(len(rows), len(columns), dtype=torch.bool)
    for axis in range(space.n_factors):
        shared |= a[:, None, axis] == b[None, :, axis]
    return shared.double()


@dataclass(frozen=True)
class Agreement:
    """Agreement of the OOD × ID similarity with the binary factorized kernel.

    Attributes:
        similarity: Name of the similarity. The sign of a distance (l2) is changed, so that larger means more similar.
        correlation: Pearson's r over all OOD × ID pairs, in [−1, 1]; NaN if either side is constant.
        low, high: 95 % percentile bootstrap interval of r. OOD cells are resampled, ID cells are fixed.
        null_low, null_high: Central 95 % interval of r under the null hypothesis (see `agreement`).
        p_value: (1 + draws with r at least as high) / (1 + draws); NaN if the correlation is NaN.
        pairs: Number of pairs used.
        draws: Number of random permutations, and of bootstrap samples.
        missing: Number of OOD rows that are omitted because their similarity is undefined (NaN).
    """

    similarity: str
    correlation: float
    low: float
    high: float
    null_low: float
    null_high: float
    p_value: float
    pairs: int
    draws: int
    missing: int


def agreement(
    grams: GramMatrices,
    similarity: Similarity = "cosine",
    *,
    draws: int = DRAWS,
    seed: int = 0,
    budget: Budget | None = None,
) -> Agreement:
    """Correlate the measured OOD × ID similarity with K_bin.

    The null distribution permutes the values of each factor at random on the OOD side (one permutation per factor, the
    same for all OOD cells). OOD cells that share a value still share one, but its relation to ID cells is lost.

    A permutation takes 2ⁿ lookups per OOD cell for n factors. A budget bounds the number of draws (at least 99). If the
    sums over all sets of factors would take more than 512 MB, a random sample of OOD cells is used.
    """
    space = grams.space
    measured = torch.from_numpy(grams.ood_by_id(similarity))
    measured = -measured if similarity == "l2" else measured.clone()
    trained = torch.from_numpy(grams.cells[: grams.n_id])
    ood = torch.from_numpy(grams.cells[grams.n_id :])
    columns = ~measured.isnan().all(0)  # an all-zero ID output has no cosine similarity
    rows = ~measured[:, columns].isnan().any(1)
    missing = int((~rows).sum())
    measured, trained, ood = measured[rows][:, columns], trained[columns], ood[rows]
    if len(ood) < 2 or len(trained) < 2:
        raise NotComputable(
            Missing.TOO_FEW_CELLS,
            f"Agreement requires at least 2 ID and 2 OOD cells with a defined {similarity} similarity. Got "
            f"{len(trained)} and {len(ood)}.",
        )
    kept = _rows_that_fit(space, len(ood), seed)
    measured, ood = (measured, ood) if kept is None else (measured[kept], ood[kept])
    if budget is not None:
        cost = 2**space.n_factors * (20 * CALL / DRAWS_AT_ONCE + 100 * len(ood))
        draws = max(min(draws, LEAST_DRAWS), budget.affords(cost, draws))
        budget.spend(cost * draws)
    table = _SharedSums(space, measured, trained)
    coordinates = space.coordinates(ood)
    names = [torch.arange(size).expand(1, -1) for size in space.shape]
    observed, per_row = table.correlation(coordinates, names)
    random = generator(seed, "agreement", "permutation")
    names = [torch.stack([torch.randperm(size, generator=random) for _ in range(draws)]) for size in space.shape]
    null, _ = table.correlation(coordinates, names)
    resampled = _bootstrap(per_row, draws, generator(seed, "agreement", "bootstrap"))
    r = float(observed[0])
    nothing = np.isnan(r)
    low, high = _central(resampled)
    null_low, null_high = _central(null)
    p_value = float("nan") if nothing else (1 + int((null >= r - 1e-12).sum())) / (1 + draws)
    return Agreement(similarity, r, low, high, null_low, null_high, p_value, measured.numel(), draws, missing)


def _rows_that_fit(space: FactorSpace, rows: int, seed: int) -> Int[Tensor, " row"] | None:
    """The OOD rows for which the sums over all sets of factors fit into memory: None for all, or a random sample."""
    each = math.prod(size + 1 for size in space.shape)
    fitting = LARGEST_TABLE // each - 1
    if rows <= fitting:
        return None
    if fitting < 2:
        raise NotComputable(
            Missing.TOO_LARGE,
            f"Agreement would require sums over {each:.0e} combinations of factors for each OOD cell.",
        )
    return torch.randperm(rows, generator=generator(seed, "agreement", "rows"))[:fitting].sort().values


class _SharedSums:
    """Sums of similarity over the ID cells that have given values of some factors, for every set of factors.

    By inclusion–exclusion, they give the sum over all ID cells that share any value with an OOD cell. Evaluating K_bin
    under a permutation therefore takes one lookup per OOD cell and set of factors.
    """

    def __init__(self, space: FactorSpace, measured: Float[Tensor, "ood id"], trained: Int[Tensor, " id"]) -> None:
        centred = measured - measured.mean()
        largest = float(measured.abs().max())
        if largest > 0:
            centred = centred / largest
        counted = torch.cat([centred, torch.ones(1, len(trained), dtype=torch.float64)])  # the last row counts cells
        grid = torch.zeros(len(counted), len(space), dtype=torch.float64)
        grid[:, trained] = counted
        grid = grid.reshape(-1, *space.shape)
        self.n_id, self.n_factors = len(trained), space.n_factors
        self.row_sums, self.row_squares = centred.sum(1), centred.square().sum(1)
        self.sums: dict[tuple[int, ...], Tensor] = {}
        for shared in subsets(range(space.n_factors)):
            others = [axis + 1 for axis in range(space.n_factors) if axis not in shared]
            self.sums[shared] = grid.sum(others) if others else grid

    def correlation(
        self, coordinates: Int[Tensor, "ood factor"], names: list[Int[Tensor, "draw _"]]
    ) -> tuple[Float[Tensor, " draw"], Float[Tensor, "ood moment"]]:
        """r for every permutation, and the sums over pairs of each OOD row for the last permutation."""
        row = torch.arange(len(coordinates))
        found, last = [], torch.empty(0)
        for some in zip(*(renaming.split(DRAWS_AT_ONCE) for renaming in names)):
            renamed = [some[axis][:, coordinates[:, axis]] for axis in range(self.n_factors)]  # (draw, ood)
            products = torch.zeros(renamed[0].shape, dtype=torch.float64)
            counts = torch.zeros_like(products)
            for shared, table in self.sums.items():
                sign = (-1) ** (len(shared) + 1)
                where = tuple(renamed[axis] for axis in shared)
                products += sign * table[(row, *where)]
                counts += sign * table[-1][where]
            fixed = (torch.full_like(counts, self.n_id), self.row_sums, self.row_squares)
            pairs, sums, squares = (column.expand_as(counts) for column in fixed)
            moments = torch.stack([pairs, sums, counts, squares, counts, products], dim=-1)
            found.append(_pearson(moments.sum(1)))
            last = moments[-1]
        return torch.cat(found), last


def _pearson(moments: Float[Tensor, "*shape moment"]) -> Float[Tensor, "*shape"]:
    """Pearson's r from (n, Σs, Σk, Σs², Σk², Σsk); NaN if either variable is constant."""
    n, s, k, ss, kk, sk = moments.unbind(-1)
    var_s, var_k = ss - s * s / n, kk - k * k / n
    varies = (var_s > 1e-14 * ss.abs()) & (var_k > 1e-14 * kk.abs()) & (ss > 1e-26 * n)  # s is scaled to at most 2
    return torch.where(varies, (sk - s * k / n) / (var_s * var_k).clamp_min(1e-300).sqrt(), torch.nan).clamp(-1, 1)


def _bootstrap(per_row: Float[Tensor, "ood moment"], draws: int, random: torch.Generator) -> Float[Tensor, " draw"]:
    picked = torch.randint(len(per_row), (draws, len(per_row)), generator=random)
    return torch.cat([_pearson(per_row[rows].sum(1)) for rows in picked.split(DRAWS_AT_ONCE)])


def _central(values: Float[Tensor, " draw"], level: float = 0.95) -> tuple[float, float]:
    values = values[~values.isnan()]
    if len(values) == 0:
        return float("nan"), float("nan")
    low, high = torch.quantile(values, torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=values.dtype)).tolist()
    return low, high
