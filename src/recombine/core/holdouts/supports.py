"""Connected and disconnected supports: whether training connects the values of all factors.

Nodes are the values of all factors; a trained cell joins the values it combines. With two factors that is the bipartite
graph of trained pairs. In one component, an additive model is determined on all combinations; in several it is not.
`Holdout.components()` counts them for any hold-out.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts.conditions import by_position
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout
from recombine.core.holdouts.measures import Components
from recombine.core.registry import Count

MOST_CELLS = 10**8  # maximum number of cells whose order is drawn in one pass


@HOLDOUTS.register("connected")
def connected(
    space: FactorSpace,
    fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Holdout:
    """A random set of round(fraction · cells) cells that leaves every value trained and the values connected.

    The connected supports of Redhardt et al. 2025. Cells are drawn in random order; cells that connect two components
    are trained on first, then others until the fraction is reached.
    """
    total = len(space)
    if total > MOST_CELLS:
        raise InputError(f"A connected support can have at most {MOST_CELLS} cells. Got {total}.")
    n_id = total - round(fraction * total)
    order = np.random.default_rng(seed).permutation(total)
    tree = _spanning(space, order)
    if len(tree) > n_id or n_id == total:
        raise InputError(
            f"fraction={fraction} of {total} cells leaves {n_id} to train on, but {len(tree)} are needed to connect "
            f"all values. Choose a fraction of at most {1 - len(tree) / total:.3g} that holds out at least one cell.",
            "holdout.fraction",
        )
    trained = np.zeros(total, dtype=bool)
    trained[tree] = True
    others = order[~trained[order]]
    trained[others[: n_id - len(tree)]] = True
    held = torch.from_numpy(~trained)
    return Holdout(space, lambda values: held[space.cells(values).cpu()])


def _spanning(space: FactorSpace, order: Int[np.ndarray, " cell"]) -> list[int]:
    """The cells that join components, taken in order until all values are connected."""
    nodes, parts = Components(sum(space.shape)), sum(space.shape)
    starts = np.cumsum([0, *space.shape[:-1]])
    chosen = []
    for cell in order:
        values = starts + np.array(np.unravel_index(cell, space.shape))
        fewer = nodes.join(values.tolist())
        if fewer:
            chosen.append(int(cell))
            parts -= fewer
            if parts == 1:
                break
    return chosen


@HOLDOUTS.register("disconnected")
def disconnected(space: FactorSpace, groups: Count = 2) -> Holdout:
    """Every factor's values are split into `groups` groups; only cells of one group are trained on.

    Every value is trained on, but values of different groups are never connected: the control of `connected`. Groups
    are neighbouring values, as equal in size as possible. Two groups of two factors with 28 values: 392 of 784 cells.
    """
    if space.n_factors < 2 or not 2 <= groups <= min(space.shape):
        raise InputError(
            f"Disconnected supports require at least two factors, and from 2 to {min(space.shape)} groups of their "
            f"values. Got groups={groups} for {space}.",
            "holdout.groups",
        )
    group = [torch.arange(size) * groups // size for size in space.shape]

    def held(positions: Int[Tensor, "*shape factor"]) -> Tensor:
        at = torch.stack([group[a].to(positions.device)[positions[..., a]] for a in range(space.n_factors)], dim=-1)
        return (at != at[..., :1]).any(-1)

    return Holdout(space, by_position(space, held))
