"""Coloured balls that add up or hide one another (Lachapelle et al. 2023)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.core.registry import Count, Width
from recombine.core.scenes.drawing import COLOURS, hue_colour, painted
from recombine.core.scenes.drawn import DrawnScene, image_sides, numbered, places, side_by_side
from recombine.core.scenes.scene import SCENES
from recombine.core.scenes.structure import Composition, Structure

PUBLISHED = ((2 / 255, 156 / 255, 154 / 255), (222 / 255, 100 / 255, 100 / 255))
SHARE = 20 / 64  # diameter of a published ball, of the image's side


@SCENES.register("balls")
class Balls(DrawnScene):
    """Balls of one size, each in its own colour, at (x1, y1), (x2, y2), …: an additive scene in colour.

    Without occlusion, the image is ground + Σ_k α_k · (colour_k − ground), also where balls overlap. With occlusion, a
    ball hides earlier ones. The published scene has y1 and y2 in 64×64 pixels: x of ball k of K is fixed at (k − ½)/K
    of the width. A ball whose factors are all absent is not drawn. If one coordinate is absent, the ball becomes a band
    along it.

    Args:
        space: Factors x1, y1, x2, y2, …, in pixels (y upwards); each ball has one or both.
        rows: Image height; by default the height that the values of y require, or else the width.
        columns: Image width, likewise.
        diameter: Of a ball; by default 20/64 of the shorter side.
        edge: Pixels over which an edge rises from 0 to 1.
        occlusion: Whether a ball hides earlier ones instead of adding to them.
        ground: The background colour, "white" (as published) or "black".
    """

    has_absent = True
    example: ClassVar[dict[str, Any] | None] = {name: places(4, 2.0, 2.0) for name in ("y1", "y2")}

    def __init__(
        self,
        space: FactorSpace,
        rows: Count | None = None,
        columns: Count | None = None,
        diameter: Width | None = None,
        edge: Width = 1.0,
        occlusion: bool = False,
        ground: Literal["white", "black"] = "white",
    ) -> None:
        suffixes = numbered(space, ("x", "y"), "Balls")
        rows, columns = image_sides(space, rows, columns, suffixes=suffixes)
        self.space, self.occlusion = space, occlusion
        self.output_shape = (3, rows, columns)
        self.inverted = ground == "white"
        self.ground = COLOURS[ground]
        count = len(suffixes)
        others = hue_colour(torch.arange(len(PUBLISHED), count) / count + 0.5).tolist()
        self.colours = [*PUBLISHED, *others][:count]
        diameter = min(rows, columns) * SHARE if diameter is None else diameter
        self.balls = side_by_side(space, (rows, columns), suffixes, self.colours, diameter=diameter, edge=edge)
        self.value_range = (0.0, 1.0) if occlusion else self._range()

    def _range(self) -> tuple[float, float]:
        """Between which numbers a sum of overlapping balls lies."""
        ground, changes = torch.tensor(self.ground), torch.tensor(self.colours) - torch.tensor(self.ground)
        low, high = (ground + changes.clamp(**bound).sum(0) for bound in ({"max": 0}, {"min": 0}))
        return min(0.0, float(low.min())), max(1.0, float(high.max()))

    @property
    def structure(self) -> Structure:
        composition = Composition.OCCLUDING if self.occlusion else Composition.ADDITIVE
        return Structure(composition, tuple(ball.factors for ball in self.balls))

    def _draw(self, values: Tensor, present: Tensor | None) -> Tensor:
        ground = values.new_tensor(self.ground)[:, None, None]
        image = ground.expand(*values.shape[:-1], *self.output_shape)
        for ball in self.balls:
            alpha, colour, shown = ball.alpha(values, present), ball.colour(values, present), ball.shown(present)
            alpha = alpha if shown is None else alpha * shown
            if self.occlusion:
                image = painted(image, alpha, colour)
            else:
                image = image + alpha.unsqueeze(-3) * (colour[..., None, None] - ground)
        return image
