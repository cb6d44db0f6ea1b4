"""The record of the losses of every step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

FIRST_ROOM = 1024  # steps


class LossTrace:
    """Losses by seed, step and column. Memory grows with the completed steps, not with the planned ones.

    Args:
        seeds: Number of seeds.
        names: Names of the columns; the first is the total.
        total: Steps of the whole run.
        device: Device of the losses, which are read rarely, because reading them after every step would stall.
    """

    def __init__(self, seeds: int, names: Sequence[str], total: int, device: torch.device) -> None:
        self.names = list(names)
        self.total = total
        self.values = torch.empty(seeds, 0, len(self.names), device=device)

    def reserve(self, steps: int) -> None:
        """Make room for this many steps, by doubling."""
        had = self.values.shape[1]
        missing = steps - had
        if missing > 0:
            room = min(max(missing, FIRST_ROOM, had), max(missing, self.total - had))
            more = self.values.new_full((self.values.shape[0], room, self.values.shape[2]), math.nan)
            self.values = torch.cat([self.values, more], dim=1)

    def record(self, step: int, losses: Float[Tensor, "seed column"]) -> None:
        self.reserve(step + 1)
        self.values[:, step] = losses.detach()

    def means(self, since: int, until: int) -> list[dict[str, float]]:
        """For each seed, the mean of each column over a range of steps."""
        return [dict(zip(self.names, row)) for row in self.values[:, since:until].mean(1).tolist()]

    def first_bad_steps(self, since: int, until: int) -> list[int | None]:
        """For each seed, the first step of a range whose total is not finite."""
        finite = self.values[:, since:until, 0].isfinite().cpu()
        return [None if bool(own.all()) else since + int((~own).nonzero()[0]) for own in finite]

    def bad_columns(self, index: int, step: int) -> list[str]:
        """The columns of a step that are not finite."""
        return [name for name, v in zip(self.names, self.values[index, step].tolist()) if not math.isfinite(v)]

    def of_seed(self, index: int, steps: int) -> Float[Tensor, "step column"]:
        return self.values[index, :steps]
