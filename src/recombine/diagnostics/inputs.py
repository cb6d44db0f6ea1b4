"""The inputs of all parts of a diagnosis, computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from recombine.core.errors import Missing, NotComputable
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.seeds import generator
from recombine.diagnostics.model.grid_activations import LayerRows
from recombine.diagnostics.model.layers import Encode, Subject
from recombine.diagnostics.model.observing import Model
from recombine.diagnostics.model.truth import Truth
from recombine.diagnostics.numerics.grids import draw_cells
from recombine.diagnostics.request import DiagnosisRequest

NO_TARGET = "no target was given"
NO_HOLDOUT = "no hold-out was given"


@dataclass(frozen=True, eq=False)
class DiagnosisInputs:
    """The arguments of `diagnose`, and the model's outputs.

    Attributes:
        subject: The model with its factor space, encoding and chosen layers.
        request: The requested parts and settings.
        holdout: None if none was given.
        outputs: The model's output for every cell, (cell, …), with the shape of the truth if there is one.
        truth: The correct output for every cell; None if not given.
        held: The chosen layers' activations over the grid, if they fit into memory together.
        draw: Index of a draw → the model with that draw of its noise.
        truth_of: Outputs (cell, number) → their truth, if the truth depends on the outputs; None otherwise.
    """

    subject: Subject
    request: DiagnosisRequest
    holdout: Holdout | None
    outputs: Shaped[Tensor, "cell ..."]
    truth: Truth | None
    held: dict[str, LayerRows] | None
    draw: Callable[[int], Subject] | None = None
    truth_of: Callable[[Tensor], Truth | None] | None = None

    @property
    def model(self) -> Model:
        return self.subject.model

    @property
    def space(self) -> FactorSpace:
        return self.subject.space

    @property
    def encode(self) -> Encode | None:
        return self.subject.encode

    @property
    def seed(self) -> int:
        return self.request.seed

    @property
    def known_truth(self) -> Truth:
        """The truth, for parts that need it."""
        if self.truth is None:
            raise NotComputable(Missing.NO_TRUTH, NO_TARGET)
        return self.truth

    @property
    def split(self) -> Holdout:
        """The hold-out, for parts that need it."""
        if self.holdout is None:
            raise NotComputable(Missing.NO_HOLDOUT, NO_HOLDOUT)
        return self.holdout

    @property
    def available(self) -> Bool[np.ndarray, " cell"]:
        """True at the cells that exist. The others are not part of any statistic."""
        return self.subject.existing

    @property
    def masks(self) -> dict[str, Bool[np.ndarray, " cell"]]:
        """Named sets of existing cells: "all" and, with a hold-out, "id" and "ood"."""
        if self.holdout is None:
            return {"all": self.available}
        return {"all": self.available, "id": self.holdout.id_mask.ravel(), "ood": self.holdout.ood_mask.ravel()}

    def check_complete(self, what: str) -> None:
        """Raise unless all cells of the grid exist, for results that are defined only on complete grids."""
        if not self.subject.complete:
            gone = len(self.space) - len(self.subject.cells)
            raise NotComputable(
                Missing.NOT_APPLICABLE, f"{what} is defined only on complete grids, but {gone} cells do not exist."
            )

    def draw_cells(self, most: int) -> Int[Tensor, " cell"]:
        """All cells, ID first; if there are more than `most`, a random sample with the same shares of ID and OOD."""
        if self.holdout is not None:
            return draw_cells(self.holdout, most, seed=self.seed)
        cells = self.subject.cells
        if len(cells) <= most:
            return cells
        return cells[torch.randperm(len(cells), generator=generator(self.seed, "cells"))[:most].sort().values]

    @property
    def id_first(self) -> Int[Tensor, " cell"]:
        """All cells that exist, the trained ones first."""
        if self.holdout is None:
            return self.subject.cells
        return torch.cat([self.holdout.id_cells, self.holdout.ood_cells])
