"""The square of Not-so-Clevr (Liu et al. 2018)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.core.registry import Count, Width
from recombine.core.scenes.drawn import DrawnScene, image_sides, places
from recombine.core.scenes.objects import SceneObject, check_factors
from recombine.core.scenes.scene import SCENES
from recombine.core.scenes.structure import Composition, Structure

SIDE = 64


@SCENES.register("square")
class Square(DrawnScene):
    """A white square at (x, y) on black, (row, column): a product of two bands, as a bump is of two stripes.

    The published scene has a 9×9 square whose 3136 centres keep it within 64×64 pixels: x and y are
    {"kind": "discrete", "size": 56, "low": 4}. Not-so-Clevr has hard edges. This scene has them too if positions are
    integers and the side is odd, because the edge then lies between two pixels (for edge ≤ 1).

    Args:
        space: Factors x and y in pixels (y upwards).
        rows: Image height; by default the height that the values of y require.
        columns: Image width, likewise from the values of x.
        side: Side of the square in pixels.
        edge: Pixels over which an edge rises from 0 to 1.
        inverted: Whether to draw a dark square on a bright background.
    """

    has_absent = True
    example: ClassVar[dict[str, Any] | None] = {name: places(4, 4.0, 1.0) for name in ("x", "y")}

    def __init__(
        self,
        space: FactorSpace,
        rows: Count | None = None,
        columns: Count | None = None,
        side: Width = 9.0,
        edge: Width = 1.0,
        inverted: bool = False,
    ) -> None:
        check_factors(space, ("x", "y"), "A square")
        rows, columns = image_sides(space, rows, columns, usual=SIDE)
        self.space, self.inverted = space, inverted
        self.output_shape = (rows, columns)
        self.object = SceneObject(space, (rows, columns), diameter=side, edge=edge, shape="square")

    @property
    def structure(self) -> Structure | None:
        if self.space.n_factors < 2:
            return None
        return Structure(Composition.PRODUCT, (("x",), ("y",)), 2 if self.inverted else 1)

    def _draw(self, values: Tensor, present: Tensor | None) -> Tensor:
        image = self.object.alpha(values, present)
        return 1 - image if self.inverted else image
