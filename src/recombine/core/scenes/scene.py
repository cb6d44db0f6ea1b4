"""What every scene offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Real
from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.core.images import image_axes
from recombine.core.registry import Family

SCENES = Family("scene", (FactorSpace,))
LONGEST = 60  # signs of a parameter in a repr; images are parameters too


class Scene(ABC):
    """Turns factor values into images or vectors, vectorized, and differentiable in `space.differentiable` factors.

    Attributes:
        space: The factor space.
        output_shape: (row, column), (channel, row, column) or (n,), of one output.
        value_range: Between which numbers the outputs lie.
        inverted: Whether the object is dark on a bright ground.
        row_0: Where row 0 is when the image is drawn: a bump's y counts upwards, a photograph's rows downwards.
        available: Which cells exist, in the space's shape; None if all do.
        has_absent: Whether a factor can be left out, so that there are single-factor scenes to train on.
        has_position: Whether the object has a place in the image, which `pixel_offsets` knows.
    """

    config: dict[str, Any] = {}  # noqa: RUF012 (replaced, never changed; empty for scenes that are not registered)
    space: FactorSpace
    output_shape: tuple[int, ...]
    value_range: tuple[float, float] = (0.0, 1.0)
    inverted: bool = False
    row_0: Literal["bottom", "top"] = "top"
    available: Bool[np.ndarray, ...] | None = None
    has_absent: bool = False
    has_position: bool = False

    @abstractmethod
    def __call__(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, "*shape ..."]:
        """Outputs (…, *output_shape) of factor values; factors that are not present leave no trace in them.

        Scenes without `has_absent` raise an InputError if some factor is not present.
        """

    def pixel_offsets(
        self, pixels: Float[Tensor, "*shape 2"], values: Float[Tensor, "*shape factor"]
    ) -> Float[Tensor, "*shape 2"] | None:
        """How far pixels (column, row) lie from where the object is, in pixels; None without `has_position`."""
        return None

    def __repr__(self) -> str:
        given = [f"{k}={v}" for k, v in self.config.items() if k != "kind" and v is not None]
        shown = ", ".join(text if len(text) <= LONGEST else f"{text[:LONGEST]}…" for text in given)
        size = "×".join(map(str, self.output_shape)) + (" pixels" if image_axes(self.output_shape) else " numbers")
        return f"{type(self).__name__}({shown}) of {self.space}, {size}"
