"""The order in which a seed sees its examples: a pure function of seed and step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from recombine.core.seeds import generator


class Order:
    """Reshuffled epochs, concatenated and cut into equal batches.

    Args:
        rows: The rows of an epoch.
        batch: Rows per step.
        seed: Determines the shuffles.
    """

    def __init__(self, rows: Int[Tensor, " row"], batch: int, seed: int) -> None:
        self.rows = rows
        self.batch = batch
        self.seed = seed
        self._epoch: tuple[int, Tensor] = (-1, rows)

    def __call__(self, step: int) -> Int[Tensor, " batch"]:
        """Rows of a step."""
        position, end = step * self.batch, (step + 1) * self.batch
        parts = []
        while position < end:
            epoch, start = divmod(position, len(self.rows))
            part = self._shuffled(epoch)[start : start + end - position]
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _shuffled(self, epoch: int) -> Tensor:
        if self._epoch[0] != epoch:
            shuffle = torch.randperm(len(self.rows), generator=generator(self.seed, "order", epoch))
            self._epoch = (epoch, self.rows[shuffle])
        return self._epoch[1]


class Schedule:
    """A sequence of orders, each of which counts its steps from 0.

    Args:
        phases: First step and order of each phase. The first phase starts at step 0.
    """

    def __init__(self, phases: Sequence[tuple[int, Order]]) -> None:
        assert phases, "nothing to train on"
        assert phases[0][0] == 0
        self.starts = [start for start, _ in phases]
        self.orders = [order for _, order in phases]

    def __call__(self, step: int) -> Int[Tensor, " batch"]:
        """Rows of a step."""
        phase = bisect_right(self.starts, step) - 1
        return self.orders[phase](step - self.starts[phase])
