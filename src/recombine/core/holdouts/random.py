"""A random set of cells."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from recombine.core.factors import FactorSpace
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout


@HOLDOUTS.register("random")
def random(
    space: FactorSpace,
    fraction: Annotated[float, Field(gt=0, lt=1)] = 0.3,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Holdout:
    """A random set of round(fraction · cells) cells. Off-grid values belong to their nearest cell."""
    chosen = np.random.default_rng(seed).permutation(len(space))[: round(fraction * len(space))]
    held = torch.zeros(len(space), dtype=torch.bool)
    held[torch.from_numpy(chosen)] = True
    return Holdout(space, lambda values: held[space.cells(values).cpu()])
