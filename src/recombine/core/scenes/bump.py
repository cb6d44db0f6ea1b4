"""The bump, its stripes, and their optional size and brightness.

With g(d) = exp(−d²/2σ²) the bump at (x, y) is G(u, v) = g(u − x) · g(v − y), u the column and v the row: the
*product* of a vertical stripe g(u − x) and a horizontal one g(v − y) (Liang et al. 2025, Sec. 2). An absent factor is
omitted from the product, so a stripe is a bump with one absent position.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float, Real
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import Factor, FactorSpace
from recombine.core.registry import Count, Width
from recombine.core.scenes.scene import SCENES, Scene
from recombine.core.scenes.structure import Composition, Structure

POSITIONS = ("x", "y")
OPTIONAL = ("size", "brightness")


@SCENES.register("bump")
class Bump(Scene):
    """A Gaussian bump at (x, y), optionally with factors `size` (multiplies σ) and `brightness` (multiplies G).

    Args:
        space: A space with factors x and y, and optionally size and brightness.
        sigma: σ in pixels.
        inverted: Whether to draw a dark bump on a bright background, 1 − G.
        pixel_centres: "integer": column j lies at u = j, as in most experiments; "half": at u = j + ½, as in the
            low-rank study.
        rows: Image height; by default the extent of factor y.
        columns: Image width; by default the extent of factor x.
    """

    row_0 = "bottom"
    has_absent = True
    has_position = True

    def __init__(
        self,
        space: FactorSpace,
        sigma: Width = 1.0,
        inverted: bool = False,
        pixel_centres: Literal["integer", "half"] = "integer",
        rows: Count | None = None,
        columns: Count | None = None,
    ) -> None:
        labelled = [name for name, factor in space.factors.items() if factor.categorical]
        if labelled:
            raise InputError(
                f"The factors of a bump must be numbers. Got labels for {', '.join(labelled)}. Give numbers, for "
                "example size=[0.5, 0.7, 1.0]."
            )
        known = [*POSITIONS, *OPTIONAL]
        strange = [name for name in space.names if name not in known]
        missing = [name for name in POSITIONS if name not in space.names]
        if strange or missing:
            raise InputError(
                f"A bump requires the factors x and y and may have size and brightness. Got {', '.join(space.names)}."
            )
        for name in OPTIONAL:
            if name in space.names and space.factors[name].low <= 0:
                raise InputError(
                    f"Factor {name!r} multiplies the bump, so its values must be above 0. Got values from "
                    f"{space.factors[name].low:g}. Set its low, for example discrete(4, low=0.25, step=0.25)."
                )
        if "brightness" in space.names and space.factors["brightness"].end > 1 + 1e-6:
            raise InputError(
                "Factor 'brightness' must stay in (0, 1], so that images stay in [0, 1]. Got values up to "
                f"{space.factors['brightness'].end:g}."
            )
        self.space = space
        self.sigma = sigma
        self.inverted = inverted
        self.first_centre = 0.5 if pixel_centres == "half" else 0.0
        self.output_shape = rows, columns = rows or _pixels(space.factors["y"]), columns or _pixels(space.factors["x"])
        for name, pixels in zip(POSITIONS, (columns, rows)):
            factor = space.factors[name]
            if factor.low < -0.5 or factor.high > pixels + 0.5:
                raise InputError(
                    f"Factor {name!r} counts pixels from 0, but its values {factor.low:g} … {factor.high:g} do not "
                    f"fit into {pixels} pixels. Start it at 0, or give the scene more rows or columns."
                )

    @property
    def structure(self) -> Structure | None:
        """A product of x and y, of rank 2 if inverted. A factor `size` acts on both: the three are one block."""
        coupled = "size" in self.space.names
        places = tuple(name for name in self.space.names if name != "brightness")
        blocks = [places] if coupled else [(name,) for name in places]
        blocks += [("brightness",)] if "brightness" in self.space.names else []
        return Structure(Composition.PRODUCT, tuple(blocks), 1 + self.inverted) if len(blocks) > 1 else None

    def __call__(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, "*shape row column"]:
        values = self.space.checked(values)
        x, y = (self._profile(name, values, present) for name in POSITIONS)
        image = y.unsqueeze(-1) * x.unsqueeze(-2)
        brightness = self._look("brightness", values, present)
        if brightness is not None:
            image = image * brightness[..., None, None]
        return 1 - image if self.inverted else image

    def pixel_offsets(
        self, pixels: Float[Tensor, "*shape 2"], values: Float[Tensor, "*shape factor"]
    ) -> Float[Tensor, "*shape 2"] | None:
        offsets = [
            self.space.factors[name].difference(pixels[..., i] + self.first_centre, values[..., self.space.axis(name)])
            for i, name in enumerate(POSITIONS)
        ]
        return torch.stack(offsets, dim=-1)

    def _profile(self, name: str, values: Tensor, present: Tensor | None) -> Float[Tensor, "*shape pixel"]:
        """g along one image axis; all ones where the factor is absent."""
        count = self.output_shape[1 if name == "x" else 0]
        pixels = torch.arange(count, dtype=values.dtype, device=values.device) + self.first_centre
        axis = self.space.axis(name)
        distance = self.space.factors[name].difference(pixels, values[..., axis, None])
        size = self._look("size", values, present)
        sigma = self.sigma if size is None else self.sigma * size.unsqueeze(-1)
        profile = torch.exp(-(distance / sigma).square() / 2)
        if present is None:
            return profile
        return torch.where(present[..., axis, None], profile, torch.ones_like(profile))

    def _look(self, name: str, values: Tensor, present: Tensor | None) -> Float[Tensor, "*shape"] | None:
        """Values of size or brightness, 1 where absent; None if the space has no such factor."""
        if name not in self.space.names:
            return None
        axis = self.space.axis(name)
        look = values[..., axis]
        return look if present is None else torch.where(present[..., axis], look, torch.ones_like(look))


def _pixels(position: Factor) -> int:
    """The default number of pixels for the values of a factor."""
    if position.listed:
        return math.floor(position.high) + 1
    return math.ceil(position.extent - 1e-6)  # 28/25 · 25 is a little more than 28


@SCENES.register("stripe")
class Stripe(Bump):
    """The stripe of one position: vertical, g(u − x), for factor x; horizontal, g(v − y), for factor y.

    Args:
        space: As for Bump.
        factor: The position that is shown; the other one has no effect.
        sigma, inverted, pixel_centres, rows, columns: As for Bump.
    """

    has_position = False

    def __init__(
        self,
        space: FactorSpace,
        factor: Literal["x", "y"] = "x",
        sigma: Width = 1.0,
        inverted: bool = False,
        pixel_centres: Literal["integer", "half"] = "integer",
        rows: Count | None = None,
        columns: Count | None = None,
    ) -> None:
        super().__init__(space, sigma=sigma, inverted=inverted, pixel_centres=pixel_centres, rows=rows, columns=columns)
        self.factor = factor

    @property
    def structure(self) -> Structure | None:
        """That of a bump, except that a function of a single block has rank 1 whatever is added to it."""
        known = super().structure
        alone = known is not None and self.inverted and "brightness" not in self.space.names
        return Structure(known.composition, known.blocks, 1) if known is not None and alone else known

    def __call__(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, "*shape row column"]:
        values = self.space.checked(values)
        shown = torch.ones_like(values, dtype=torch.bool) if present is None else present.clone()
        shown[..., self.space.axis("y" if self.factor == "x" else "x")] = False
        return super().__call__(values, shown)

    def pixel_offsets(
        self, pixels: Float[Tensor, "*shape 2"], values: Float[Tensor, "*shape factor"]
    ) -> Float[Tensor, "*shape 2"] | None:
        return None
