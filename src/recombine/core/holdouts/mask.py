"""Any set of cells: from an array, from a function of the factors, from run lengths."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import torch
from pydantic import Field

from recombine.core.errors import InputError
from recombine.core.factors import DEFAULT_CHUNK, FactorSpace
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout, as_mask, run_lengths


@HOLDOUTS.register("mask")
def from_run_lengths(space: FactorSpace, lengths: list[Annotated[int, Field(ge=0)]]) -> Holdout:
    """Any set of cells, written as alternating run lengths of the flat grid: ID, OOD, ID, … (created by `mask`)."""
    if sum(lengths) != len(space):
        raise InputError(f"Run lengths must add up to the {len(space)} cells of {space}. Got a sum of {sum(lengths)}.")
    held = torch.repeat_interleave(torch.arange(len(lengths)) % 2 == 1, torch.tensor(lengths))
    return Holdout(space, lambda values: held[space.cells(values).cpu()])


def mask(space: FactorSpace, held: Any) -> Holdout:
    """The cells where `held`, an array or nested list in the space's shape (or flat), is true."""
    return from_run_lengths(space, lengths=run_lengths(as_mask(space, held)))


def where(space: FactorSpace, function: Callable[..., Any]) -> Holdout:
    """The cells where a function of the named factors is true: `where(space, lambda x, y: (x - y).abs() < 3)`."""
    try:
        inspect.signature(function).bind(**dict.fromkeys(space.names))
    except TypeError as error:
        raise InputError(
            f"A hold-out function must take the factors by name, here ({', '.join(space.names)}). {error}."
        ) from error
    held = []
    for cells in space.chunks(DEFAULT_CHUNK):
        values = space.values(cells)
        held.append(torch.as_tensor(function(**{name: values[:, a] for a, name in enumerate(space.names)})))
        if held[-1].shape != cells.shape:
            raise InputError(
                f"A hold-out function must return one boolean per cell, shape {tuple(cells.shape)}. Got shape "
                f"{tuple(held[-1].shape)}."
            )
    return mask(space, torch.cat(held).numpy())
