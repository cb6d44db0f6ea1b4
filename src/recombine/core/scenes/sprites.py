"""Several coloured shapes that hide one another (Wiedemer et al. 2023)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.core.registry import Count, Width
from recombine.core.scenes.drawing import COLOURS, painted
from recombine.core.scenes.drawn import DrawnScene, image_sides, numbered, places, side_by_side
from recombine.core.scenes.objects import PROPERTIES, check_names
from recombine.core.scenes.scene import SCENES
from recombine.core.scenes.shapes import SIDE, ShapeName
from recombine.core.scenes.structure import Composition, Structure

SHARE = 0.31  # diameter of a sprite of mean published scale, of the image's side


@SCENES.register("sprites")
class Sprites(DrawnScene):
    """Sprites, each with its own factors, as a colour image (3, row, column). Later sprites hide earlier ones.

    Sprite k may have the factors shape, x, y, size, colour or hue, followed by k: x1, hue1, x2, shape2, … They mean the
    same as in the scene `shapes`. Sprites without position factors are placed side by side.

    Args:
        space: The factors.
        rows: Image height; by default the height that the values of y require, or 32 without such a factor.
        columns: Image width, likewise from the values of x.
        diameter: Size of sprites without a factor size; by default 0.31 of the shorter side.
        edge: Pixels over which an edge rises from 0 to 1.
        shape: Shape of sprites without a factor shape.
        colours: Colour names of sprites without factors colour and hue.
        ground: The background colour.
    """

    no_absent = (
        "A sprite cannot be drawn without its factor 'shape', so there are no single-factor scenes. Fix the shape "
        "(scene.shape=square), or remove the example source that uses them."
    )
    example: ClassVar[dict[str, Any] | None] = {
        "x1": places(3, 2.0, 2.0),
        "y1": places(2, 3.0, 2.0),
        "shape1": ["square", "triangle"],
        "x2": places(3, 2.0, 2.0),
        "hue2": {"kind": "cyclic", "size": 2, "low": 0.1, "step": 0.5},
    }

    def __init__(
        self,
        space: FactorSpace,
        rows: Count | None = None,
        columns: Count | None = None,
        diameter: Width | None = None,
        edge: Width = 1.0,
        shape: ShapeName = "circle",
        colours: list[str] = ["red", "cyan", "yellow", "blue"],  # noqa: B006 (validated into a copy)
        ground: str = "black",
    ) -> None:
        suffixes = numbered(space, PROPERTIES, "Sprites")
        check_names([ground, *colours], COLOURS, "colour")
        rows, columns = image_sides(space, rows, columns, suffixes=suffixes, usual=SIDE)
        self.space = space
        self.output_shape = (3, rows, columns)
        self.ground = COLOURS[ground]
        self.has_absent = not any(name.startswith("shape") for name in space.names)
        self.sprites = side_by_side(
            space,
            (rows, columns),
            suffixes,
            [COLOURS[name] for name in colours or ["white"]],
            diameter=min(rows, columns) * SHARE if diameter is None else diameter,
            edge=edge,
            shape=shape,
        )

    @property
    def structure(self) -> Structure | None:
        blocks = tuple(sprite.factors for sprite in self.sprites)
        return Structure(Composition.OCCLUDING, blocks) if len(blocks) > 1 else None

    def _draw(self, values: Tensor, present: Tensor | None) -> Tensor:
        image = values.new_tensor(self.ground)[:, None, None].expand(*values.shape[:-1], *self.output_shape)
        for sprite in self.sprites:
            alpha, shown = sprite.alpha(values, present), sprite.shown(present)
            image = painted(image, alpha if shown is None else alpha * shown, sprite.colour(values, present))
        return image
