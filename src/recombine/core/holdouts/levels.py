"""Compositions of level 1, 2, …: training changes few factors of one reference cell."""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts.conditions import Value, by_position
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout


@HOLDOUTS.register("levels")
def levels(
    space: FactorSpace, changes: Annotated[int, Field(ge=1)] = 1, reference: dict[str, Value] | None = None
) -> Holdout:
    """Trained on iff at most `changes` factors differ from the reference cell (the first values unless given).

    A held-out cell that differs from its nearest trained cell in one factor is a level-1 composition, one that differs
    in two a level-2 composition (Farid et al. 2025); `levels()` of the hold-out counts that. With three factors of two
    values and one change, 4 cells are trained on, 3 are of level 1 and 1 is of level 2, as in that paper.
    """
    if changes >= space.n_factors:
        raise InputError(
            f"changes={changes} leaves nothing to hold out: {space} has {space.n_factors} factors. Choose fewer.",
            "holdout.changes",
        )
    places = space.indices(reference or {})
    origin = torch.tensor([places.get(name, 0) for name in space.names])

    def held(positions: Int[Tensor, "*shape factor"]) -> Tensor:
        return (positions != origin.to(positions.device)).sum(-1) > changes

    return Holdout(space, by_position(space, held))
