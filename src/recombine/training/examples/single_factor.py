"""Scenes with a single factor present; for bumps, these are the stripes."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.task import Task
from recombine.training.examples.source import EXAMPLES, ExampleSource


@EXAMPLES.register("single_factor")
class SingleFactor(ExampleSource):
    """Each value of each factor with the other factors absent: 2N examples for two factors of N values."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.values, self.present = single_factor_values(task.space)

    def __len__(self) -> int:
        return len(self.values)

    def factors(self, rows: Int[Tensor, " row"]) -> tuple[Float[Tensor, "row factor"], Bool[Tensor, "row factor"]]:
        return self.values[rows], self.present[rows]

    def check(self) -> None:
        if not self.task.scene.has_absent:
            raise InputError(
                f"Single-factor examples omit the other factors, but {type(self.task.scene).__name__} cannot be drawn "
                "with absent factors. Omit the source, or choose a scene that supports them, such as scene.kind=bump."
            )
        self.task.encoding(self.values, self.present)  # raises if a factor has no code for being absent
        self.task.scene(self.values[:1], self.present[:1])  # raises if there is no image without some factor


def single_factor_values(space: FactorSpace) -> tuple[Float[Tensor, "row factor"], Bool[Tensor, "row factor"]]:
    """Factor values of all single-factor scenes, and which factor is present in each."""
    rows = sum(space.shape)
    values = torch.zeros(rows, space.n_factors)
    present = torch.zeros(rows, space.n_factors, dtype=torch.bool)
    start = 0
    for axis, factor in enumerate(space.factors.values()):
        values[start : start + factor.size, axis] = factor.grid()
        present[start : start + factor.size, axis] = True
        start += factor.size
    return values, present
