"""Cells listed individually or by shared values."""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from recombine.core.errors import InputError, Problem
from recombine.core.factors import FactorSpace
from recombine.core.holdouts.conditions import Conditions, all_met, by_position, meeting
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout


@HOLDOUTS.register("cells")
def cells(space: FactorSpace, cells: Annotated[list[Conditions], Field(min_length=1)]) -> Holdout:
    """The cells that match at least one entry of a list.

    An entry names values or labels of some factors, `{"colour": "red", "shape": "square"}`; a factor that it omits may
    have any value. A list of values or an inclusive range `{"min": 3, "max": 5}` (one end is enough) can replace a
    value. On the command line: holdout.cells='[{colour: red, shape: square}]'.
    """
    entries, problems = [], []
    for number, conditions in enumerate(cells):
        try:
            entries.append(meeting(space, conditions))
        except InputError as error:
            problems += [Problem(f"holdout.cells.{number}.{key}", told) for key, told in error.problems]
    if problems:
        raise InputError.join(problems)

    def held(positions: Int[Tensor, "*shape factor"]) -> Tensor:
        return torch.stack([all_met(met, positions) for met in entries]).any(0)

    return Holdout(space, by_position(space, held))
