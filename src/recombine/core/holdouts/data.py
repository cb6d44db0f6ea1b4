"""The split of a data set, which holds out the cells that occur only in its test part."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout, as_mask


class OwnSplit(Holdout):
    """A hold-out that a task completes from its scene. Without a task, its cells are unknown."""

    def __init__(self, space: FactorSpace, held: Any = None) -> None:
        self.known = held is not None
        cells = None if held is None else torch.from_numpy(as_mask(space, held).ravel())

        def rule(values: Tensor) -> Tensor:
            if cells is None:
                raise InputError(
                    "A hold-out of kind data is the split of a data set. It cannot be combined with others, and the "
                    "scene must be a data set with a split."
                )
            return cells[space.cells(values).cpu()]

        super().__init__(space, rule)
        self.config = {"kind": "data"}

    def of(self, test_cells: Any) -> OwnSplit:
        """The hold-out of a scene; `test_cells` is true where it shows test pictures only, None if it has no split."""
        if test_cells is None:
            raise InputError(
                "A hold-out of kind data requires a data set with a train/test split, but this scene has none. "
                "Choose another kind, for example holdout.kind=random, or give the split of the pictures.",
                "holdout.kind",
            )
        return OwnSplit(self.space, test_cells)

    def __repr__(self) -> str:
        return super().__repr__() if self.known else f"<the split of the data set over {self.space}>"


@HOLDOUTS.register("data")
def data(space: FactorSpace) -> Holdout:
    """The cells that occur only in the test part of the scene's data set. Other test pictures are not trained on.

    Requires a scene that is a data set with a split.
    """
    return OwnSplit(space)
