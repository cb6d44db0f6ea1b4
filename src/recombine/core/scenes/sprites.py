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
    """Sprites, each with its own factors, in colour (3, row, column); a later one hides those before it.

    Sprite k may have the factors shape, x, y, size, colour or hue, followed by k: x1, hue1, x2, shape2, … They mean the
    same as in the scene `shapes`. Sprites stand side by side where their places are no factors.

    Args:
        space: The factors.
        rows: Image height; by default as high as the places y need, 32 if there are none.
        columns: Image width, by x.
        diameter: Of sprites without a factor size; 0.31 of the shorter side unless given.
        edge: Pixels over which an edge rises from 0 to 1.
        shape: Of sprites without a factor shape.
        colours: Of sprites without factors colour and hue, by name.
        ground: The colour behind.
    """

    no_absent = (
        "A sprite without its factor shape is no sprite, so there are no single-factor scenes. Leave shapes out of the "
        "factors (scene.shape=square), or leave that source of examples out."
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
