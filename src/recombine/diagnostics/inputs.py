"""Everything the parts of a diagnosis are computed from, made once."""

from __future__ import annotations

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
    """What was given to `diagnose`, and the model's outputs.

    Attributes:
        subject: The model with its factor space, encoding and chosen layers.
        request: What was asked for.
        holdout: None if none was given.
        outputs: What the model makes of every cell, (cell, …), shaped like the truth if there is one.
        truth: What it should make of them; None if not given.
        held: The chosen layers' activations over the grid, if they fit into memory together.
    """

    subject: Subject
    request: DiagnosisRequest
    holdout: Holdout | None
    outputs: Shaped[Tensor, "cell ..."]
    truth: Truth | None
    held: dict[str, LayerRows] | None

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
    def masks(self) -> dict[str, Bool[np.ndarray, " cell"]]:
        """Named sets of cells: all, and with a hold-out id and ood."""
        everywhere = {"all": np.ones(len(self.space), dtype=bool)}
        if self.holdout is None:
            return everywhere
        exist, trained, held = (
            mask.ravel() for mask in (self.holdout.available, self.holdout.id_mask, self.holdout.ood_mask)
        )
        return {"all": exist, "id": trained, "ood": held}

    def draw_cells(self, most: int) -> Int[Tensor, " cell"]:
        """All cells, ID first, or if there are more than `most` a seeded draw that keeps the shares of ID and OOD."""
        if self.holdout is not None:
            return draw_cells(self.holdout, most, seed=self.seed)
        if len(self.space) <= most:
            return self.id_first
        return torch.randperm(len(self.space), generator=generator(self.seed, "cells"))[:most].sort().values

    @property
    def id_first(self) -> Int[Tensor, " cell"]:
        """All cells that exist, the trained ones first."""
        if self.holdout is None:
            return torch.arange(len(self.space))
        return torch.cat([self.holdout.id_cells, self.holdout.ood_cells])
