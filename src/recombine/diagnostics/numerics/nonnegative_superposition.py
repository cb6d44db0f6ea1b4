"""Tests whether the output for an unseen combination is a nonnegative sum of training outputs.

    found = nonnegative_superposition(outputs, space, holdout, truth=images)
    found.share, found.truth, found.unrelated, found.trained       # each in [0, 1]

The *relatives* of a cell are the ID cells that differ from it in exactly one factor. With two factors, they are the ID
cells with the same x or the same y. The share of an OOD output's energy that the best sum of its relatives' outputs
explains is

    1 − min_{w ≥ 0} ‖D(c) − Σ_r w_r D(r)‖² / ‖D(c)‖²

where the direction of the mean ID output has been removed from all D. Otherwise, all outputs would resemble each other
if the background is bright, or in an untrained network whose outputs hardly vary. (Subtracting the mean would not
suffice, because the sum of two outputs has twice the background.)

`superposition` gives all relatives the same weight, as the paper does. A network that superposes training outputs may
weight near relatives more than distant ones. Free weights explain more of any output, so the share is reported with
three controls: the truth, equally many unrelated ID cells, and ID outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.seeds import generator
from recombine.diagnostics.model.truth import Truth, as_truth
from recombine.diagnostics.numerics.grids import GridArray, as_rows, cells_per_block, id_and_ood, mean_row

MOST_CELLS = 128  # maximum number of OOD cells; each needs a separate least-squares fit
NOTHING = 1e-26  # energy relative to other outputs below which only rounding error remains


@dataclass(frozen=True, eq=False)
class NonnegativeSuperposition:
    """Shares of energy that the best sums of trained outputs explain; NaN if a cell has no relative.

    Attributes:
        cells: The OOD cells examined; a random sample if there are many.
        share: Share of the energy of the OOD outputs that the sums explain, in [0, 1].
        truth: The same share for the truth, and so for a model with correct outputs; None without truth.
        unrelated: The same share explained by equally many random ID cells that share no value with the OOD cell. It
            measures the effect of the free weights alone.
        trained: The same share for ID outputs (one random ID cell per OOD cell). Only relatives that are at least as
            far away as the nearest relative of the OOD cell are used, so the hole around the cell has the same size.
        blank: Whether the outputs equal the mean ID output, so that there is nothing to explain.
    """

    cells: Int[np.ndarray, " cell"]
    share: Float[np.ndarray, " cell"]
    truth: Float[np.ndarray, " cell"] | None
    unrelated: Float[np.ndarray, " cell"]
    trained: Float[np.ndarray, " cell"]
    blank: Bool[np.ndarray, " cell"]


def nonnegative_superposition(
    outputs: GridArray,
    space: FactorSpace,
    holdout: Holdout,
    *,
    truth: GridArray | Truth | None = None,
    most_cells: int = MOST_CELLS,
    seed: int = 0,
) -> NonnegativeSuperposition:
    """Fit OOD outputs by nonnegative sums of the outputs of their relatives.

    Args:
        outputs: The model's outputs, of shape (cells, …).
        space: The factor space.
        holdout: Defines ID and OOD cells.
        truth: The correct outputs, of the same shape.
        most_cells: Maximum number of OOD cells. If there are more, a random sample is used.
        seed: Seed of the samples.
    """
    rows = as_rows(outputs, space, "outputs")
    id_mask, ood = id_and_ood(holdout, space)
    trained = id_mask.nonzero()[:, 0]
    where = space.coordinates(trained)
    mean = mean_row(lambda some: rows[some], trained, rows.shape[1])
    random = generator(seed, "remembered")
    cells = ood.nonzero()[:, 0]
    if len(cells) > most_cells:
        cells = cells[torch.randperm(len(cells), generator=random)[:most_cells].sort().values]
    right = None if truth is None else as_truth(truth, space, rows.shape[1]).rows(cells)
    mean /= mean.norm().clamp_min(1e-300)
    some_at_a_time = trained.split(cells_per_block(rows.shape[1]))
    nothing = NOTHING * max(float(rows[some].double().square().sum(1).max()) for some in some_at_a_time)

    def apart_from_mean(vectors: Tensor) -> Tensor:
        vectors = vectors.double()
        return vectors - (vectors @ mean).unsqueeze(-1) * mean

    found: dict[str, list[float]] = {name: [] for name in ("share", "truth", "unrelated", "trained")}
    blank = np.array([float(apart_from_mean(rows[cell]).square().sum()) <= nothing for cell in cells], dtype=bool)
    for number, cell in enumerate(cells):
        apart = _steps_apart(space, where, space.coordinates(cell))
        relatives = (apart > 0).sum(1) == 1
        strangers = trained[(apart > 0).all(1)]
        wanted = [apart_from_mean(rows[cell])] + ([] if right is None else [apart_from_mean(right[number])])
        shares = _explained(apart_from_mean(rows[trained[relatives]]), wanted)
        found["share"].append(shares[0])
        found["truth"].append(shares[-1])
        drawn = strangers[torch.randperm(len(strangers), generator=random)[: int(relatives.sum())]]
        found["unrelated"] += _explained(apart_from_mean(rows[drawn]), wanted[:1])
        nearest = torch.where(relatives[:, None] & (apart > 0), apart, math.inf).amin(0)
        other = trained[torch.randint(len(trained), (), generator=random)]
        away = _steps_apart(space, where, space.coordinates(other))
        as_far = ((away > 0).sum(1) == 1) & ((away >= nearest) | (away == 0)).all(1)
        found["trained"] += _explained(apart_from_mean(rows[trained[as_far]]), [apart_from_mean(rows[other])])
    arrays = {name: np.array(values, dtype=np.float64) for name, values in found.items()}
    return NonnegativeSuperposition(cells.numpy(), arrays["share"], None if right is None else arrays["truth"],
                      arrays["unrelated"], arrays["trained"], blank)  # fmt: skip


def _steps_apart(
    space: FactorSpace, cells: Int[Tensor, "cell factor"], one: Int[Tensor, " factor"]
) -> Float[Tensor, "cell factor"]:
    """Distances of cells from one cell along each factor, in grid steps. Cyclic factors use the shorter way round."""
    apart = (cells - one).abs()
    for axis, factor in enumerate(space.factors.values()):
        if factor.kind == "cyclic":
            apart[:, axis] = torch.minimum(apart[:, axis], factor.size - apart[:, axis])
    return apart.double()


def _explained(parts: Float[Tensor, "part number"], wanted: list[Float[Tensor, " number"]]) -> list[float]:
    """1 − min_{w ≥ 0} ‖b − Σ w parts‖² / ‖b‖² for each b in `wanted`; NaN if there are no parts or if b = 0."""
    from scipy.optimize import nnls

    if len(parts) == 0:
        return [math.nan] * len(wanted)
    # An equivalent problem with as many rows as parts. Threads of NumPy and torch would
    # wait for each other, which takes fifteen times as long, so only torch is used.
    basis, small = torch.linalg.qr(parts.T)
    shares = []
    for vector in wanted:
        energy = float(vector @ vector)
        if energy <= NOTHING * float(parts.square().sum(1).max()):
            shares.append(math.nan)
            continue
        within = basis.T @ vector
        _, residual = nnls(small.numpy(), within.numpy(), maxiter=100 * len(parts))
        missed = energy - float(within @ within) + residual**2
        shares.append(min(1.0, max(0.0, 1 - missed / energy)))
    return shares
