"""Mixtures of two training examples (mixup, Zhang et al. 2018)."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.core.registry import Count, Positive
from recombine.core.seeds import generator
from recombine.core.task import Task
from recombine.training.examples.source import EXAMPLES, ExampleSource


@EXAMPLES.register("mixup")
class Mixup(ExampleSource):
    """λ · example + (1 − λ) · other example, for inputs and targets, where both are ID cells.

    It trains the network to superpose images, which is how decoders fail on unseen combinations, so it should hurt.

    Args:
        task: The task to learn.
        count: Number of mixtures; by default the number of ID cells.
        concentration: λ is drawn from Beta(concentration, concentration); 1 gives a uniform distribution.
        draw: Seed of the draw.
    """

    def __init__(self, task: Task, count: Count | None = None, concentration: Positive = 1.0, draw: Count = 1) -> None:
        super().__init__(task)
        self.cells = task.holdout.id_cells
        self.count = count or len(self.cells)
        draws = generator(draw, "mixup")
        self.pairs = torch.randint(len(self.cells), (self.count, 2), generator=draws)
        shares = np.random.default_rng(draw).beta(concentration, concentration, self.count)
        self.shares = torch.from_numpy(shares)

    def __len__(self) -> int:
        return self.count

    def examples(
        self, rows: Int[Tensor, " row"], device: torch.device, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "row ..."], Float[Tensor, "row ..."]]:
        first, second = (self.task.space.values(self.cells[self.pairs[rows, i]]).to(device, dtype) for i in (0, 1))
        mixed = []
        for render in (self.task.inputs, self.task.targets):
            one, other = render(first), render(second)
            share = self.shares[rows].to(one).reshape(-1, *[1] * (one.ndim - 1))
            mixed.append(torch.lerp(other, one, share))
        return mixed[0], mixed[1]
