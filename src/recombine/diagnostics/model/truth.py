"""The correct output of every cell, from a scene, a function of factor values, or an array over the grid.

A small truth is held in memory. A large one that a function computes is recomputed for the requested cells, because it
would need as much memory as the model's outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from recombine.core.errors import InputError, RecombineError
from recombine.core.factors import FactorSpace
from recombine.core.memory import give_back_freed_memory
from recombine.core.scenes import Scene
from recombine.diagnostics.model.layers import grid_values
from recombine.diagnostics.numerics.grids import LARGE, GridArray, as_rows, check_finite, mean_row

CHUNK = 1024
CHUNK_BYTES = 2**24
WHAT = "true outputs"


@dataclass(frozen=True, eq=False)
class Truth:
    """The right output of every cell.

    Attributes:
        space: The factor space.
        shape: The shape of one output.
        held: All outputs, (cell, number), 0 for cells that do not exist; None if they are computed on demand.
        make: Cells → their rows; called if `held` is None.
        function: Factor values → true outputs, as given; None if they are known only on the grid.
    """

    space: FactorSpace
    shape: tuple[int, ...]
    held: Shaped[Tensor, "cell number"] | None
    make: Callable[[Tensor], Tensor] | None = None
    function: Callable[[Tensor], Any] | None = None

    @property
    def size(self) -> int:
        """Numbers per cell."""
        return int(np.prod(self.shape))

    def rows(self, cells: Int[Tensor, " some"]) -> Shaped[Tensor, "some number"]:
        """The true outputs of some cells."""
        if self.held is not None:
            return self.held[cells]
        assert self.make is not None
        found, done = torch.empty(0), 0
        for some in _in_parts(cells, self.size):
            made = self.make(some)
            found = torch.empty(len(cells), self.size, dtype=made.dtype) if done == 0 else found
            found[done : done + len(some)] = made
            done += len(some)
        give_back_freed_memory()
        return found

    def mean(self, cells: Int[Tensor, " some"]) -> Float[Tensor, " number"]:
        """Their mean over some cells."""
        return mean_row(self.rows, cells, self.size)

    def columns(self, chosen: Int[Tensor, " some"], cells: Int[Tensor, " cell"]) -> Shaped[Tensor, "cell some"]:
        """Some numbers of the true outputs of cells, without holding all numbers of all of them."""
        return torch.cat([self.rows(some)[:, chosen] for some in _in_parts(cells, self.size)])


def as_truth(truth: GridArray | Truth, space: FactorSpace, size: int) -> Truth:
    """The truth, converted from an array over the grid if necessary; it must have `size` numbers per cell."""
    if not isinstance(truth, Truth):
        rows = as_rows(truth, space, WHAT)
        truth = Truth(space, (rows.shape[1],), rows)
    if truth.size != size:
        raise InputError(f"The truth must have as many numbers per cell as the outputs, {size}. Got {truth.size}.")
    return truth


def truth_over_grid(
    target: Any,
    space: FactorSpace,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    cells: Int[Tensor, " existing"] | None = None,
) -> Truth:
    """The truth at every cell, with as many numbers per cell as the model's output.

    Args:
        target: A scene or function, factor values (cell, factor) → (cell, …), or an array of shape (cell, …) or
            (size of the first factor, size of the second, …, …).
        space: The factor space.
        shape: Shape of one output. The truth may be flat, or have rows and columns where the output is flat, or
            differ in axes of length 1. Its own shape is kept unless it is flat.
        dtype: Precision in which it is stored.
        cells: The cells that exist; by default all. The truth of other cells is never requested.
    """
    everywhere = torch.arange(len(space)) if cells is None else cells
    if isinstance(target, Tensor | np.ndarray):
        found = torch.as_tensor(target)
        if tuple(found.shape[: space.n_factors]) == space.shape:
            found = found.reshape(len(space), *found.shape[space.n_factors :])
        if len(everywhere) < len(space) == len(found):
            found = torch.where(_exists(space, everywhere, found.ndim), found, torch.zeros((), dtype=found.dtype))
        rows = as_rows(found, space, WHAT)  # checks before the numbers per cell are spoken of
        return Truth(space, _own_shape(tuple(found.shape[1:]) or (1,), shape), rows.to(dtype))
    if not callable(target):
        raise InputError(
            "The target must be a scene, a function of factor values or an array over the grid. Got "
            f"{type(target).__name__}."
        )

    def make(cells: Tensor) -> Tensor:
        return _called(target, space, cells, dtype).reshape(len(cells), -1)

    start, *others = _in_parts(everywhere, int(np.prod(shape)))
    first = _called(target, space, start, dtype)
    own = _own_shape(tuple(first.shape[1:]) or (1,), shape)
    function = None if getattr(target, "factors_from_data", False) else target  # a data set has no images in between
    truth = Truth(space, own, None, make, function)
    if truth.size * dtype.itemsize * len(space) <= LARGE:
        rows = torch.zeros(len(space), truth.size, dtype=dtype)
        rows[everywhere] = torch.cat([first.reshape(len(start), -1), *map(make, others)])
        return Truth(space, own, as_rows(rows, space, WHAT), function=function)
    for some in (start, *others):
        check_finite(make(some), some, space, WHAT)
    return truth


def nearest_truth(
    scene: Scene, space: FactorSpace, outputs: Shaped[Tensor, "cell ..."], cells: Int[Tensor, " existing"]
) -> Shaped[Tensor, "cell ..."]:
    """For each cell, the picture of the data set that is nearest to the output; 0 elsewhere."""
    found = torch.zeros_like(outputs)
    for some in _in_parts(cells, outputs[0].numel()):
        found[some] = scene.target_for(grid_values(space, some, outputs.dtype), outputs[some])
    return found


def _exists(space: FactorSpace, cells: Int[Tensor, " existing"], axes: int) -> Bool[Tensor, "cell ..."]:
    mask = torch.zeros(len(space), dtype=torch.bool)
    mask[cells] = True
    return mask.reshape(-1, *[1] * (axes - 1))


def _in_parts(cells: Int[Tensor, " cell"], size: int) -> tuple[Int[Tensor, " some"], ...]:
    """Blocks of cells to compute together, about equally large, with `size` numbers per cell."""
    at_once = max(2, min(CHUNK, CHUNK_BYTES // max(1, 4 * size)))
    return cells.tensor_split(max(1, -(-len(cells) // at_once)))


def _own_shape(own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one true output, if it fits the model's."""
    size = int(np.prod(shape))
    if int(np.prod(own)) != size:
        raise InputError(
            f"The target must have as many numbers per cell as the model's output, {size} (shape {shape}). "
            f"Got shape {own} per cell."
        )
    full, full_own = ([n for n in axes if n > 1] for axes in (shape, own))
    if full != full_own and min(len(full), len(full_own)) > 1:
        raise InputError(
            f"The target has shape {own} per cell, but the model's output has shape {shape} with the same number of "
            "entries. Convert one to the layout of the other, for example with permute."
        )
    return own if len(full_own) > 1 else shape


def _called(
    target: Callable[[Tensor], Any], space: FactorSpace, cells: Int[Tensor, " cell"], dtype: torch.dtype
) -> Shaped[Tensor, "cell ..."]:
    alone = len(cells) == 1  # a function that squeezes would drop the axis of a single cell
    values = grid_values(space, cells.repeat(2) if alone else cells, dtype)
    try:
        with torch.no_grad():
            made = target(values)
    except RecombineError:
        raise
    except Exception as error:
        raise InputError(
            f"The target function failed on factor values of shape {tuple(values.shape)}: "
            f"{type(error).__name__}: {error}."
        ) from error
    made = torch.as_tensor(made) if isinstance(made, np.ndarray) else made
    if not isinstance(made, Tensor) or made.ndim == 0 or len(made) != len(values):
        got = f"shape {tuple(made.shape)}" if isinstance(made, Tensor) else type(made).__name__
        raise InputError(
            f"The target function must map factor values of shape ({len(values)}, {space.n_factors}) to a tensor with "
            f"{len(values)} entries. Got {got}."
        )
    if made.is_complex():
        raise InputError("The target is complex. Give real numbers, for example its real and imaginary parts.")
    return made[: len(cells)].detach().to("cpu", dtype)
