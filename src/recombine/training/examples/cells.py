"""The trained combinations themselves: ID cells of the grid."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.registry import Count, Share
from recombine.core.task import Task
from recombine.training.examples.source import EXAMPLES, ExampleSource


@EXAMPLES.register("cells")
class Cells(ExampleSource):
    """ID cells, of which each seed draws its own.

    Args:
        task: What is to be learnt.
        draw: "all": each ID cell once per epoch; "replacement": `samples` cells, drawn once with replacement, as in
            the paper.
        samples: Number of draws with replacement.
        count: This many distinct cells, drawn once; overrides `draw`.
        share: The same as a share of all ID cells, rounded to whole cells.
    """

    def __init__(
        self,
        task: Task,
        draw: Literal["all", "replacement"] = "all",
        samples: Count = 2000,
        count: Annotated[int, Field(ge=0)] | None = None,
        share: Share | None = None,
    ) -> None:
        super().__init__(task)
        self.draw, self.samples, self.count, self.share = draw, samples, count, share
        self.cells = task.holdout.id_cells

    def __len__(self) -> int:
        return len(self.cells)

    def factors(self, rows: Int[Tensor, " row"]) -> tuple[Float[Tensor, "row factor"], None]:
        return self.task.space.values(self.cells[rows]), None

    @property
    def distinct(self) -> int | None:
        """How many distinct cells are asked for; None if `draw` decides."""
        return self.count if self.share is None else round(self.share * len(self))

    def epoch_length(self) -> int:
        if self.distinct is not None:
            return self.distinct
        return self.samples if self.draw == "replacement" else len(self)

    def epoch(self, draws: torch.Generator) -> Int[Tensor, " row"]:
        if self.distinct is not None:
            return torch.randperm(len(self), generator=draws)[: self.distinct]
        if self.draw == "replacement":
            return torch.randint(len(self), (self.samples,), generator=draws)
        return torch.arange(len(self))

    def check(self) -> None:
        if self.count is not None and self.share is not None:
            raise InputError(f"Give count or share, not both. Got {self.count} and {self.share}.", "share")
        if self.count is not None and self.count > len(self):
            raise InputError(
                f"count={self.count} asks for more ID cells than the hold-out leaves ({len(self)}).", "count"
            )
