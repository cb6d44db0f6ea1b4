"""An arrow that turns: a scene with a cyclic factor."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.registry import Count, Width
from recombine.core.scenes.drawing import painted, soft_step
from recombine.core.scenes.drawn import DrawnScene, image_sides, places
from recombine.core.scenes.objects import SceneObject, check_factors
from recombine.core.scenes.scene import SCENES
from recombine.core.scenes.structure import Composition, Structure

ANGLE = "angle"
FACTORS = (ANGLE, "x", "y", "size", "colour", "hue")
SIDE = 32
SHAFT, HEAD = 0.14, 0.34  # half the width of the shaft and of the head, of the arrow's length


@SCENES.register("arrow")
class Arrow(DrawnScene):
    """An arrow rotated counter-clockwise about its centre by `angle` degrees, as a colour image (3, row, column).

    It points to the right at 0°. Factors: `angle`, and optionally `x` and `y` in pixels (y upwards), `size` (its length
    in pixels), `colour` (labels) or `hue` in turns of the colour circle.

    Args:
        space: The factors.
        rows: Image height; by default the height that the values of y require, or 32 if y is not a factor.
        columns: Image width, likewise from the values of x.
        length: Length of the arrow without factor `size`; by default 0.7 of the shorter side.
        edge: Pixels over which an edge rises from 0 to 1.
    """

    no_absent = (
        "An arrow cannot be drawn without its angle, so it has no single-factor scenes. Remove the example source "
        "that uses them."
    )
    example: ClassVar[dict[str, Any] | None] = {
        "angle": {"kind": "cyclic", "size": 8, "low": 7.0, "step": 45.0},
        "x": places(2, 3.0, 2.0),
        "y": places(1, 4.0, 1.0),
        "hue": {"kind": "cyclic", "size": 2, "low": 0.0, "step": 0.5},
    }

    def __init__(
        self,
        space: FactorSpace,
        rows: Count | None = None,
        columns: Count | None = None,
        length: Width | None = None,
        edge: Width = 1.0,
    ) -> None:
        check_factors(space, FACTORS, "An arrow")
        if ANGLE not in space.names or space.factors[ANGLE].categorical:
            raise InputError(f"An arrow requires a factor 'angle' in degrees. Got {space}.")
        angle = space.factors[ANGLE]
        if angle.kind == "cyclic" and not math.isclose(angle.extent, 360, rel_tol=1e-6):
            raise InputError(
                f"Factor 'angle' is in degrees, so it wraps around at 360. Got a period of {angle.extent:g}."
            )
        rows, columns = image_sides(space, rows, columns, usual=SIDE)
        self.space, self.edge = space, edge
        self.output_shape = (3, rows, columns)
        length = 0.7 * min(rows, columns) if length is None else length
        self.object = SceneObject(space, (rows, columns), diameter=length, edge=edge)

    @property
    def structure(self) -> Structure | None:
        """Colour × coverage; angle and position do not compose pixel by pixel."""
        colours = [name for name in self.space.names if name in ("colour", "hue")]
        if not colours:
            return None
        outline = tuple(name for name in self.space.names if name not in colours)
        return Structure(Composition.PRODUCT, (outline, (colours[0],)), 1)

    def _draw(self, values: Tensor, present: Tensor | None) -> Tensor:
        black = torch.zeros(3, 1, 1, dtype=values.dtype, device=values.device)
        ground = black.expand(*values.shape[:-1], 3, 1, 1)
        return painted(ground, self._alpha(values), self.object.colour(values, None))

    def _alpha(self, values: Float[Tensor, "*shape factor"]) -> Float[Tensor, "*shape row column"]:
        """A shaft and, over its front, a triangular head; 1 − (1 − a)(1 − b) where they meet."""
        across, up = self.object.offsets(values)
        half = self.object.half_size(values).unsqueeze(-1)
        turn = values[..., self.space.axis(ANGLE), None] * (math.pi / 180)
        cosine, sine = turn.cos(), turn.sin()
        along = (cosine * across).unsqueeze(-2) + (sine * up).unsqueeze(-1)
        aside = (cosine * up).unsqueeze(-1) - (sine * across).unsqueeze(-2)
        wide, reach = 2 * SHAFT * half, 2 * HEAD * half

        def step(inside: Tensor) -> Tensor:
            return soft_step(inside, self.edge)

        shaft = step(along + half) * step(-along) * step(wide - aside) * step(wide + aside)
        slope = reach / half  # from half the head's width at the middle down to 0 at the tip
        steep = (1 + slope.square()).sqrt()
        head = (
            step(along) * step((reach - slope * along - aside) / steep) * step((reach - slope * along + aside) / steep)
        )
        return shaft + head - shaft * head
