"""Everything the parts of a diagnosis are computed from, made once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Shaped
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.diagnostics.model.grid_activations import LayerRows
from recombine.diagnostics.model.layers import Encode, Subject
from recombine.diagnostics.model.observing import Model
from recombine.diagnostics.model.truth import Truth
from recombine.diagnostics.numerics.superposition import PICTURES


@dataclass(frozen=True, eq=False)
class DiagnosisInputs:
    """What was given to `diagnose`, and the model's outputs.

    Attributes:
        model, space, encode: As given.
        holdout: None if none was given.
        subject: The model with the chosen layers.
        outputs: What it makes of every cell, (cell, …), shaped like the truth if there is one.
        truth: What it should make of them; None if not given.
        held: The chosen layers' activations over the grid, if they fit into memory together.
        layers: The choice of layers as given.
        geometry: How the metric tensor is found, "exact" or "finite difference".
        memory: Bytes of activations to keep at a time.
        seed: Of all draws.
        pictures: How many OOD cells to keep pictures of, or which.
    """

    model: Model
    space: FactorSpace
    encode: Encode | None
    holdout: Holdout | None
    subject: Subject
    outputs: Shaped[Tensor, "cell ..."]
    truth: Truth | None
    held: dict[str, LayerRows] | None
    layers: str | list[str] | None
    geometry: str
    memory: int
    seed: int
    pictures: int | Sequence[int] = PICTURES

    @property
    def split(self) -> Holdout:
        """The hold-out; an error that marks the part as missing if there is none."""
        if self.holdout is None:
            raise InputError("It compares held-out with trained combinations, and no hold-out was given.")
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
