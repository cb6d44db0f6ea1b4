"""A coloured shape on a ground."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.registry import Count, Width
from recombine.core.scenes.drawing import COLOURS, painted
from recombine.core.scenes.drawn import DrawnScene, image_sides, places
from recombine.core.scenes.objects import PROPERTIES, SceneObject, check_factors, check_names, named_colours
from recombine.core.scenes.scene import SCENES
from recombine.core.scenes.structure import Composition, Structure

ShapeName = Literal["circle", "square", "triangle", "cross"]
BACKGROUND = "background"
SIDE = 32  # pixels of an image axis along which nothing moves


@SCENES.register("shapes")
class Shapes(DrawnScene):
    """A coloured shape at (x, y), as an image (3, row, column), with any subset of its factors.

    Factors: `shape` (labels circle, square, triangle, cross, or a number of them), `x` and `y` in pixels (y upwards),
    `size` in pixels, `colour` (labels, see `recombine.core.scenes.drawing.COLOURS`) or `hue` in turns of the colour
    circle, `background` (labels of colours). Two published scenes are special cases:

    - concepts (Park et al. 2024): shape=["circle", "triangle"], x, y, two sizes, two colours and two backgrounds,
      32×32 pixels.
    - xyobject (Michlo's disent): x and y of 25 values, size=[7, 9, 11, 13, 15], hue of 24 values, 64×64 pixels,
      squares.

    Args:
        space: The factors.
        rows: Image height; by default the height that the values of y require, or 32 if y is not a factor.
        columns: Image width, likewise from the values of x.
        diameter: Width and height of the shape without factor `size`; by default a third of the shorter side.
        edge: Pixels over which an edge rises from 0 to 1.
        shape: The shape without factor `shape`.
        colour: The colour without factors `colour` and `hue`.
        ground: The background colour without factor `background`.
    """

    no_absent = (
        "A shape cannot be drawn without its factor 'shape', so there are no single-factor scenes. Fix the shape "
        "(scene.shape=square), or remove the example source that uses them."
    )
    example: ClassVar[dict[str, Any] | None] = {
        "shape": ["circle", "square", "triangle", "cross"],
        "x": places(3, 2.0, 2.0),
        "y": places(2, 2.0, 3.0),
        "hue": {"kind": "cyclic", "size": 2, "low": 0.0, "step": 0.5},
    }

    def __init__(
        self,
        space: FactorSpace,
        rows: Count | None = None,
        columns: Count | None = None,
        diameter: Width | None = None,
        edge: Width = 1.0,
        shape: ShapeName = "circle",
        colour: str = "white",
        ground: str = "black",
    ) -> None:
        check_factors(space, (*PROPERTIES, BACKGROUND), "A scene of shapes")
        check_names([colour, ground], COLOURS, "colour")
        rows, columns = image_sides(space, rows, columns, usual=SIDE)
        self.space = space
        self.output_shape = (3, rows, columns)
        self.has_absent = "shape" not in space.names
        self.inverted = sum(COLOURS[ground]) > sum(COLOURS[colour])
        self.ground = COLOURS[ground]
        self.object = SceneObject(
            space,
            (rows, columns),
            diameter=min(rows, columns) / 3 if diameter is None else diameter,
            edge=edge,
            shape=shape,
            colour=COLOURS[colour],
        )
        if BACKGROUND in space.names:
            if not space.factors[BACKGROUND].categorical:
                raise InputError(f"Factor 'background' takes labels among {', '.join(COLOURS)}. Got numbers.")
            check_names(space.factors[BACKGROUND].labels, COLOURS, "colour")

    @property
    def structure(self) -> Structure | None:
        """Colour gain × coverage, on a ground. A square without factors `shape` and `size` is a product of x and y too.
        With a factor `background`, the object as a whole hides it."""
        names = self.space.names
        if BACKGROUND in names:  # background · (1 − coverage) + colour · coverage
            whole = tuple(self.object.factors)
            return Structure(Composition.OCCLUDING, ((BACKGROUND,), whole), 2) if whole else None
        outline = [name for name in self.object.factors if name not in ("colour", "hue")]
        split = self.object.shapes == ["square"] and "size" not in names
        blocks = [(name,) for name in outline] if split else [tuple(outline)] if outline else []
        blocks += [(name,) for name in ("colour", "hue") if name in names]
        if len(blocks) < 2:
            return None
        return Structure(Composition.PRODUCT, tuple(blocks), 1 if not any(self.ground) else 2)

    def _draw(self, values: Tensor, present: Tensor | None) -> Tensor:
        ground = values.new_tensor(self.ground).expand(*values.shape[:-1], 3)
        if BACKGROUND in self.space.names:
            axis = self.space.axis(BACKGROUND)
            chosen = named_colours(self.space.factors[BACKGROUND], values[..., axis])
            ground = chosen if present is None else torch.where(present[..., axis, None], chosen, ground)
        return painted(ground[..., None, None], self.object.alpha(values, present), self.object.colour(values, present))
