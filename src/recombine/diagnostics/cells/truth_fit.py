"""How well the truth explains the output of a cell: unchanged, at another strength, or with another factor value.

The truth is first rendered as the model renders trained cells (`rendering`), so that a model that draws everything
fainter or blurred is not penalized.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.diagnostics.cells.memory_fit import TrueProducts
from recombine.diagnostics.cells.products import Products, blank_energy
from recombine.diagnostics.cells.rendering import Rendering
from recombine.diagnostics.model.truth import Truth
from recombine.diagnostics.numerics.grids import cells_per_block

MOST_COMPARED = 2048  # cells of a grid up to which each output is compared with the truth of every cell
SHOWN = 0.1  # share of an output that the truth with one value replaced must explain for that value to count as shown
CERTAIN = 0.9  # share from which the truth of another cell determines all values


@dataclass(frozen=True, eq=False)
class TruthFit:
    """Residual energies ‖o − explanation‖² of some cells. The truth is as the model renders it.

    Attributes:
        energy: ‖t − μ‖², for comparison.
        error: Relative error ‖o − t‖² / ‖t − mean truth‖², with the truth as it was given.
        spread: ‖t − mean truth‖².
        blank: Distance ‖t − the nearest blank output‖², for comparison.
        right: Of t.
        form: Of a·t + b·μ + c with a ≥ 0.
        strength: That a.
        value: Of the nearest truth with one factor replaced; ∞ if there is none.
        value_axis, value_index: Which factor, and by which of its values; −1 if there is none.
        value_apart: ‖t − that truth‖².
        elsewhere: Of the nearest truth of any cell; ∞ if the grid is too large to compare them all.
        elsewhere_cell: That cell; −1 if unknown.
        read: The value of each factor that the output shows, as an index; −1 if it shows none.
    """

    energy: Float[np.ndarray, " cell"]
    error: Float[np.ndarray, " cell"]
    spread: Float[np.ndarray, " cell"]
    blank: Float[np.ndarray, " cell"]
    right: Float[np.ndarray, " cell"]
    form: Float[np.ndarray, " cell"]
    strength: Float[np.ndarray, " cell"]
    value: Float[np.ndarray, " cell"]
    value_axis: Int[np.ndarray, " cell"]
    value_index: Int[np.ndarray, " cell"]
    value_apart: Float[np.ndarray, " cell"]
    elsewhere: Float[np.ndarray, " cell"]
    elsewhere_cell: Int[np.ndarray, " cell"]
    read: Int[np.ndarray, "cell factor"]

    @property
    def total_error(self) -> float:
        """‖o − t‖² over ‖t − mean truth‖², both summed over the cells."""
        return float((self.error * self.spread).sum() / self.spread.sum())


def true_products(
    rows: Shaped[Tensor, "grid number"],
    truth: Truth,
    found: Products,
    how: Rendering,
    cells: Int[Tensor, " cell"],
    pool: Int[Tensor, " pool"],
) -> TrueProducts:
    """Inner products of the truth of some cells with their own outputs and with those of a pool of trained cells."""
    energy, own = (torch.empty(len(cells), dtype=torch.float64) for _ in range(2))
    among = torch.empty(len(cells), len(pool), dtype=torch.float64)
    step = cells_per_block(truth.size)
    for here in torch.arange(len(cells)).split(step):
        rendered = how(truth.rows(cells[here]))
        rendered -= (rendered @ found.flat) @ found.flat.T
        energy[here] = rendered.square().sum(1)
        own[here] = ((rows[cells[here]].double() - found.mean) * rendered).sum(1)
        for there in torch.arange(len(pool)).split(step):
            among[here[:, None], there] = rendered @ (rows[pool[there]].double() - found.mean).T
    return TrueProducts(energy, own, among)


def fit_truth(
    rows: Shaped[Tensor, "grid number"],
    truth: Truth,
    space: FactorSpace,
    found: Products,
    how: Rendering,
    *,
    cells: Int[Tensor, " cell"],
    available: Bool[Tensor, " grid"],
) -> TruthFit:
    """Explain the outputs of some cells by the truth of these and other cells that are available."""
    near = [_replaced(space, cells, axis) for axis in range(space.n_factors)]
    everywhere = len(space) <= MOST_COMPARED
    parts = []
    at_once = cells_per_block(truth.size) if everywhere else 4 * cells_per_block(truth.size * sum(space.shape))
    for some in torch.arange(len(cells)).split(at_once):
        wanted = available.nonzero()[:, 0] if everywhere else _wanted(near, some, available)
        replaced = [one[some] for one in near]
        parts.append(
            _fit(rows, truth, space, found, how, cells=cells[some], near=replaced, wanted=wanted, everywhere=everywhere)
        )
    return TruthFit(**{name: torch.cat([part[name] for part in parts]).numpy() for name in parts[0]})


def _replaced(space: FactorSpace, cells: Int[Tensor, " cell"], axis: int) -> Int[Tensor, "cell value"]:
    """The cells with every value of one factor."""
    stride = int(np.prod(space.shape[axis + 1 :]))
    value = space.coordinates(cells)[:, axis]
    return cells[:, None] + (torch.arange(space.shape[axis])[None] - value[:, None]) * stride


def _wanted(near: list[Tensor], some: Tensor, available: Tensor) -> Tensor:
    cells = torch.cat([one[some].flatten() for one in near]).unique()
    return cells[available[cells]]


def _fit(
    rows: Tensor,
    truth: Truth,
    space: FactorSpace,
    found: Products,
    how: Rendering,
    *,
    cells: Tensor,
    near: list[Tensor],
    wanted: Tensor,
    everywhere: bool,
) -> dict[str, Tensor]:
    outputs = rows[cells].double() - found.mean
    right = truth.rows(cells)
    cross, own, along = _cross(outputs, truth, found, how, wanted)
    energy = outputs.square().sum(1)
    output_along = outputs @ found.flat
    place = torch.full((len(space),), -1)
    place[wanted] = torch.arange(len(wanted))
    here = place[cells]
    distance = energy[:, None] - 2 * cross + own
    raised = cross - output_along @ along.T
    raised_own = (own - along.square().sum(1)).clamp_min(0)
    usable = torch.where(raised_own > 1e-12 * raised_own.amax(), raised_own, torch.inf)
    explained = raised.clamp_min(0).square() / usable
    flat = (energy - output_along.square().sum(1)).clamp_min(0)
    row = torch.arange(len(cells))
    value = _best_value(distance, place, near, space.coordinates(cells))
    rendered = how(right)
    apart = (rendered - how(truth.rows(value["cell"]))).square().sum(1)
    away = (right.double() - how.mean).square().sum(1).clamp_min(1e-300)
    return {
        "energy": own[here],
        "error": (rows[cells].double() - right).square().sum(1) / away,
        "spread": away,
        "blank": blank_energy(rendered + found.mean),
        "right": distance[row, here].clamp_min(0),
        "form": (flat - explained[row, here]).clamp_min(0),
        "strength": raised[row, here] / usable[here],
        "value": value["left"],
        "value_axis": value["axis"],
        "value_index": value["index"],
        "value_apart": apart,
        **_elsewhere(distance, here, wanted, everywhere),
        "read": _read(
            distance,
            explained,
            flat,
            place=place,
            near=near,
            at=space.coordinates(cells),
            wanted=wanted,
            space=space,
            everywhere=everywhere,
        ),
    }


def _elsewhere(distance: Tensor, here: Tensor, wanted: Tensor, everywhere: bool) -> dict[str, Tensor]:
    """The nearest truth of any other cell."""
    if not everywhere:
        return {"elsewhere": torch.full_like(distance[:, 0], torch.inf), "elsewhere_cell": torch.full_like(here, -1)}
    left, column = distance.scatter(1, here[:, None], torch.inf).clamp_min(0).min(1)
    return {"elsewhere": left, "elsewhere_cell": wanted[column]}


def _cross(
    outputs: Tensor, truth: Truth, found: Products, how: Rendering, wanted: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Products of outputs with the rendered truth of some cells; its energy; its flat part."""
    cross = torch.empty(len(outputs), len(wanted), dtype=torch.float64)
    own = torch.empty(len(wanted), dtype=torch.float64)
    along = torch.empty(len(wanted), found.flat.shape[1], dtype=torch.float64)
    step = cells_per_block(truth.size)
    for start in range(0, len(wanted), step):
        block = how(truth.rows(wanted[start : start + step]))
        here = slice(start, start + len(block))
        cross[:, here] = outputs @ block.T
        own[here], along[here] = block.square().sum(1), block @ found.flat
    return cross, own, along


def _best_value(distance: Tensor, place: Tensor, near: list[Tensor], at: Tensor) -> dict[str, Tensor]:
    """The nearest truth with one factor replaced."""
    row = torch.arange(len(distance))
    left = torch.full((len(distance),), torch.inf, dtype=torch.float64)
    axis_of, index_of, cell_of = (torch.full((len(distance),), -1) for _ in range(3))
    cell_of = near[0][row, at[:, 0]].clone()  # the cell itself where there is no other
    for axis, cells in enumerate(near):
        column = place[cells]
        residual = torch.where(column >= 0, distance.gather(1, column.clamp_min(0)), torch.inf)
        residual[row, at[:, axis]] = torch.inf
        best, index = residual.clamp_min(0).min(1)
        nearer = best < left
        left = torch.where(nearer, best, left)
        axis_of[nearer], index_of[nearer] = axis, index[nearer]
        cell_of[nearer] = cells[row, index][nearer]
    return {"left": left, "axis": axis_of, "index": index_of, "cell": cell_of}


def _read(
    distance: Tensor,
    explained: Tensor,
    flat: Tensor,
    *,
    place: Tensor,
    near: list[Tensor],
    at: Tensor,
    wanted: Tensor,
    space: FactorSpace,
    everywhere: bool,
) -> Int[Tensor, "cell factor"]:
    """The value of each factor that an output shows.

    The output is compared with the true images for all values of that factor, with the other factors right, both by
    distance and up to strength. If either comparison finds the right value, it is the one shown. If the truth of some
    other cell explains nine tenths of the output, or twice as much as all of these, its value is used instead.
    """
    row = torch.arange(len(at))
    shown = torch.full(at.shape, -1)
    share, best = explained.max(1)
    for axis, cells in enumerate(near):
        column = place[cells]
        missing = column < 0
        gained = explained.gather(1, column.clamp_min(0)).masked_fill(missing, -1)
        nearest = distance.gather(1, column.clamp_min(0)).masked_fill(missing, torch.inf).argmin(1)
        likest = gained.argmax(1)
        value = torch.where((nearest == at[:, axis]) | (likest == at[:, axis]), at[:, axis], nearest)
        gain = gained[row, value]
        found = gain >= SHOWN * flat
        shown[found, axis] = value[found]
        if everywhere:
            instead = (share >= SHOWN * flat) & ((share >= CERTAIN * flat) | (gain < share / 2))
            shown[instead, axis] = space.coordinates(wanted[best[instead]])[:, axis]
    return shown
