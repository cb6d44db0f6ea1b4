"""Examples from the ID cells of the grid."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.training.examples.draws import Drawn
from recombine.training.examples.pictures import picture_examples
from recombine.training.examples.source import EXAMPLES


@EXAMPLES.register("cells")
class Cells(Drawn):
    """ID cells; each seed draws its own. All pictures of a cell are used.

    Args:
        task: The task to learn.
        draw: "all": each ID cell once per epoch, with all its pictures; "replacement": `samples` cells, drawn once with
            replacement, as in the paper (or `samples` pictures, if a data set has several per cell).
        samples: Number of draws with replacement.
        count: Use this many distinct cells, each with one picture, drawn once; overrides `draw`.
        share: Like `count`, as a share of all ID cells, rounded to whole cells.
    """

    noun = "ID cells"

    @cached_property
    def _pictures(self) -> Int[Tensor, " row"] | None:
        """The pictures that serve as examples, in the order of their cells; None if every cell has a single picture."""
        scene = self.task.scene
        return scene.trained_pictures(self.task.holdout) if scene.shows_several else None

    @cached_property
    def _cells(self) -> Int[Tensor, " row"]:
        """The cell of each example."""
        dataset = self.task.scene.dataset
        if self._pictures is None or dataset is None:
            return self.task.holdout.id_cells
        return dataset.cells[self._pictures]

    @property
    def choices(self) -> int:
        return self.task.holdout.n_id

    def __len__(self) -> int:
        return len(self._cells)

    def factors(self, rows: Int[Tensor, " row"]) -> tuple[Float[Tensor, "row factor"], None]:
        return self.task.space.values(self._cells[rows]), None

    def examples(
        self, rows: Int[Tensor, " row"], device: torch.device, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "row ..."], Float[Tensor, "row ..."]]:
        if self._pictures is None:
            return super().examples(rows, device, dtype)
        return picture_examples(self.task, self._pictures[rows], device, dtype)

    def epoch(self, draws: torch.Generator) -> Int[Tensor, " row"]:
        chosen = super().epoch(draws)
        if self._pictures is None or self.distinct is None:
            return chosen
        _, counts = torch.unique_consecutive(self._cells, return_counts=True)
        starts = counts.cumsum(0) - counts
        return starts[chosen] + (torch.rand(len(chosen), generator=draws) * counts[chosen]).long()
