"""The interface of scenes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.core.images import image_axes
from recombine.core.registry import Family
from recombine.core.scenes.structure import Structure

if TYPE_CHECKING:
    from recombine.core.holdouts import Holdout

SCENES = Family("scene", (FactorSpace,))
LONGEST = 60  # signs of a parameter in a repr; images are parameters too


class Scene(ABC):
    """Turns factor values into images or vectors, vectorized, and differentiable in `space.differentiable` factors.

    Attributes:
        space: The factor space.
        output_shape: (row, column), (channel, row, column) or (n,), of one output.
        value_range: The lowest and the highest possible value of the outputs.
        inverted: Whether the object is dark on a bright background.
        row_0: Whether row 0 is drawn at the bottom (the y of a bump counts upwards) or at the top (as in a photograph).
        available: Which cells exist, in the space's shape; None if all do.
        has_absent: Whether factors can be absent, so that single-factor scenes exist.
        has_position: Whether the object has a position in the image, which `pixel_offsets` uses.
        factors_from_data: Whether `completed` finds the factors.
        dataset: The data set whose pictures the scene shows; None for a scene that draws its images.
        shows_several: Whether some cell has several pictures.
        test_cells: Which cells occur only in the test part of a data set, in the space's shape; None without a split.
        example: Factors of a small example space, as in a configuration, that the scene can draw with default settings.
            None if there is none, for example because the scene needs a file.
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
    example: ClassVar[dict[str, Any] | None] = {"x": 12, "y": 9}
    factors_from_data: ClassVar[bool] = False
    test_cells: Bool[np.ndarray, ...] | None = None
    dataset: Any = None  # a Dataset

    @property
    def shows_several(self) -> bool:
        """Whether some cell has several pictures."""
        return False

    def trained_pictures(self, holdout: Holdout) -> Int[Tensor, " picture"] | None:
        """Numbers of the data set's pictures that may be trained on, in the order of their cells; None without one."""
        return None

    @property
    def structure(self) -> Structure | None:
        """How blocks of factors compose the image; None if they do not compose or if this is unknown."""
        return None

    @classmethod
    def completed(cls, config: Mapping[str, Any], factors: Any) -> tuple[dict[str, Any], Any]:
        """Complete a scene's configuration and factors with what the scene infers, for example from a file.

        Args:
            config: As the user wrote it.
            factors: The factors as the user wrote them; None if the scene determines them.
        """
        return dict(config), factors

    @abstractmethod
    def __call__(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, "*shape ..."]:
        """Render factor values as outputs (…, *output_shape). Absent factors have no effect on them.

        Scenes without `has_absent` raise an InputError if some factor is not present.
        """

    def target_for(
        self, values: Real[Tensor, "cell factor"], outputs: Float[Tensor, "cell ..."]
    ) -> Float[Tensor, "cell ..."]:
        """The targets of outputs at factor values: the scene itself, unless it shows several pictures there."""
        return self(values)

    def pixel_offsets(
        self, pixels: Float[Tensor, "*shape 2"], values: Float[Tensor, "*shape factor"]
    ) -> Float[Tensor, "*shape 2"] | None:
        """Distance in pixels of each pixel (column, row) from the object; None without `has_position`."""
        return None

    def __repr__(self) -> str:
        given = [f"{k}={v}" for k, v in self.config.items() if k != "kind" and v is not None]
        shown = ", ".join(text if len(text) <= LONGEST else f"{text[:LONGEST]}…" for text in given)
        size = "×".join(map(str, self.output_shape)) + (" pixels" if image_axes(self.output_shape) else " numbers")
        return f"{type(self).__name__}({shown}) of {self.space}, {size}"
