"""What a model should make of every cell: from a scene, a function of factor values, or an array over the grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from recombine.diagnostics.grids import as_rows
from recombine.diagnostics.layers import grid_values
from recombine.errors import InputError, RecombineError
from recombine.factors import FactorSpace

CHUNK = 1024


def truth_over_grid(
    target: Any, space: FactorSpace, shape: tuple[int, ...], dtype: torch.dtype
) -> Shaped[Tensor, "cell ..."]:
    """The truth at every cell, (cell, …), with as many numbers per cell as the model's output.

    Args:
        target: A scene or function, factor values (cell, factor) → (cell, …), or an array of shape (cell, …) or
            (size of the first factor, size of the second, …, …).
        space: The factor space.
        shape: Shape of one output. The truth may be flat, or have rows and columns where the output is flat, or
            differ by axes of length 1. Its own shape is kept unless it is flat.
        dtype: Precision to keep it in.
    """
    if isinstance(target, Tensor | np.ndarray):
        found = torch.as_tensor(target)
        if tuple(found.shape[: space.n_factors]) == space.shape:
            found = found.reshape(len(space), *found.shape[space.n_factors :])
    elif callable(target):
        found = _called(target, space, dtype)
    else:
        raise InputError(
            "The target is a scene, a function of factor values or an array over the grid. "
            f"Got {type(target).__name__}."
        )
    size = int(np.prod(shape))
    own = tuple(found.shape[1:]) or (1,)
    if as_rows(found, space, "true outputs").shape[1] != size:
        raise InputError(
            f"The target must have as many numbers per cell as the model's output, {size} (shape {shape}). "
            f"Got shape {own} per cell."
        )
    full, full_own = ([n for n in axes if n > 1] for axes in (shape, own))
    if full != full_own and min(len(full), len(full_own)) > 1:
        raise InputError(
            f"The target has shape {own} per cell and the model's output {shape}: as many numbers in another order. "
            "Bring one into the layout of the other, for example with permute."
        )
    return found.detach().cpu().to(dtype).reshape(len(space), *(own if len(full_own) > 1 else shape))


def _called(target: Callable[[Tensor], Any], space: FactorSpace, dtype: torch.dtype) -> Tensor:
    found = torch.empty(0)
    for cells in space.chunks(CHUNK):
        values = grid_values(space, cells, dtype)
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
        if not isinstance(made, Tensor) or made.ndim == 0 or len(made) != len(cells):
            got = f"shape {tuple(made.shape)}" if isinstance(made, Tensor) else type(made).__name__
            raise InputError(
                f"The target function must turn factor values of shape ({len(cells)}, {space.n_factors}) into a tensor "
                f"with as many entries. Got {got}."
            )
        if made.is_complex():
            raise InputError("The target is complex. Give real numbers, such as its real and imaginary part.")
        if int(cells[0]) == 0:
            found = torch.empty(len(space), *made.shape[1:], dtype=dtype)
        found[int(cells[0]) : int(cells[-1]) + 1] = made.detach().cpu()
    return found
