"""Pictures of a data set: all pictures of the trained combinations."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.task import Task
from recombine.training.examples.draws import Drawn
from recombine.training.examples.source import EXAMPLES


@EXAMPLES.register("pictures")
class Pictures(Drawn):
    """Pictures of ID cells, one example each. Test pictures of the data set are excluded.

    The source `cells` trains on the same pictures; here, draws, `count` and `share` refer to pictures instead of cells.

    Args:
        task: The task to learn; its scene must be a data set.
        draw: "all": each picture once per epoch; "replacement": `samples` pictures, drawn once with replacement.
        samples: Number of draws with replacement.
        count: Use this many distinct pictures, drawn once; overrides `draw`.
        share: Like `count`, as a share of all pictures of ID cells.
    """

    noun = "pictures of ID cells"

    @cached_property
    def _numbers(self) -> Int[Tensor, " row"]:
        numbers = self.task.scene.trained_pictures(self.task.holdout)
        if numbers is None:
            raise InputError(
                f"The source 'pictures' requires a data set, but {type(self.task.scene).__name__} is not one. Omit "
                "the source, or choose scene.kind=images."
            )
        return numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def examples(
        self, rows: Int[Tensor, " row"], device: torch.device, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "row ..."], Float[Tensor, "row ..."]]:
        return picture_examples(self.task, self._numbers[rows], device, dtype)

    def check(self) -> None:
        len(self)  # an error unless the scene is a data set
        super().check()


def picture_examples(
    task: Task, numbers: Int[Tensor, " row"], device: torch.device, dtype: torch.dtype
) -> tuple[Float[Tensor, "row ..."], Float[Tensor, "row ..."]]:
    """Inputs and targets of pictures, given by their indices."""
    dataset = task.scene.dataset
    assert dataset is not None
    codes = task.encoding(task.space.values(dataset.cells[numbers]).to(device, dtype))
    pictures = dataset.pictures(numbers).to(device, dtype)
    return (pictures, codes) if task.inverse else (codes, pictures)
