"""What every scene offers."""

from __future__ import annotations

from typing import Any

from jaxtyping import Bool, Float, Real
from torch import Tensor

from recombine.factors import FactorSpace
from recombine.registry import Family

SCENES = Family("scene", (FactorSpace,))


class Scene:
    """Renders factor values into grey images (row = vertical, column = horizontal), vectorized and differentiable.

    Attributes:
        space: The factor space.
        image_shape: (rows, columns).
        inverted: Whether the object is dark on a bright ground.
    """

    config: dict[str, Any] = {}  # noqa: RUF012 (replaced, never changed; empty for scenes that are not registered)
    space: FactorSpace
    image_shape: tuple[int, int]
    inverted: bool = False

    def __call__(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, "*shape row column"]:
        """Images of factor values; factors that are not present leave their trace out of the image."""
        raise NotImplementedError

    def pixel_offsets(
        self, pixels: Float[Tensor, "*shape 2"], values: Float[Tensor, "*shape factor"]
    ) -> Float[Tensor, "*shape 2"] | None:
        """How far pixels (column, row) lie from where the object is, in pixels; None if it has no single place."""
        return None

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v}" for k, v in self.config.items() if k != "kind" and v is not None)
        return f"{type(self).__name__}({shown}) of {self.space}, {self.image_shape[0]}×{self.image_shape[1]} pixels"
