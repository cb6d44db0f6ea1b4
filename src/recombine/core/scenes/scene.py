"""What every scene offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

from jaxtyping import Bool, Float, Real
from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.core.registry import Family

SCENES = Family("scene", (FactorSpace,))
LONGEST = 60  # signs of a parameter in a repr; images are parameters too


class Scene(ABC):
    """Renders factor values into grey images (row = vertical, column = horizontal), vectorized and differentiable.

    Attributes:
        space: The factor space.
        output_shape: (rows, columns).
        inverted: Whether the object is dark on a bright ground.
        row_0: Where row 0 is when the image is drawn: a bump's y counts upwards, a photograph's rows downwards.
    """

    config: dict[str, Any] = {}  # noqa: RUF012 (replaced, never changed; empty for scenes that are not registered)
    space: FactorSpace
    output_shape: tuple[int, int]
    inverted: bool = False
    row_0: ClassVar[Literal["bottom", "top"]] = "bottom"

    @abstractmethod
    def __call__(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, "*shape row column"]:
        """Images of factor values; factors that are not present leave their trace out of the image."""

    def pixel_offsets(
        self, pixels: Float[Tensor, "*shape 2"], values: Float[Tensor, "*shape factor"]
    ) -> Float[Tensor, "*shape 2"] | None:
        """How far pixels (column, row) lie from where the object is, in pixels; None if it has no single place."""
        return None

    def __repr__(self) -> str:
        given = [f"{k}={v}" for k, v in self.config.items() if k != "kind" and v is not None]
        shown = ", ".join(text if len(text) <= LONGEST else f"{text[:LONGEST]}…" for text in given)
        return f"{type(self).__name__}({shown}) of {self.space}, {self.output_shape[0]}×{self.output_shape[1]} pixels"
