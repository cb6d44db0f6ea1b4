"""An object of a scene, whose shape, position, size and colour are fixed or driven by factors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import Factor, FactorSpace
from recombine.core.registry import nearest
from recombine.core.scenes.drawing import COLOURS, SHAPES, hue_colour

PLACES = ("x", "y")
PROPERTIES = ("shape", *PLACES, "size", "colour", "hue")
Present = Bool[Tensor, "*shape factor"] | None


class SceneObject:
    """One object with a shape, a place, a size and a colour, each fixed or driven by a factor.

    The factors are called shape, x, y, size, colour and hue, followed by `suffix`. Positions and sizes are in pixels,
    hues in turns of the colour circle. The labels of a colour are names in `COLOURS`, and those of a shape are names in
    `SHAPES`. If a factor `shape` has numbers instead of labels, its i-th value stands for the i-th entry of `SHAPES`.

    Args:
        space: The factor space.
        sides: (rows, columns) of the image.
        suffix: What follows the names of its factors, such as "1".
        place: (x, y) if no factor determines it; by default the middle of the image.
        diameter: Width and height if no factor determines them.
        edge: Width of the soft edge.
        shape: The shape if no factor determines it.
        colour: (red, green, blue) if no factor determines it.
    """

    def __init__(
        self,
        space: FactorSpace,
        sides: tuple[int, int],
        *,
        suffix: str = "",
        place: tuple[float | None, float | None] = (None, None),
        diameter: float,
        edge: float,
        shape: str = "circle",
        colour: Sequence[float] = (1.0, 1.0, 1.0),
    ) -> None:
        self.space, self.sides, self.suffix = space, sides, suffix
        middle = ((sides[1] - 1) / 2, (sides[0] - 1) / 2)
        self.place = tuple(usual if given is None else given for given, usual in zip(place, middle))
        self.diameter, self.edge, self.own_colour = diameter, edge, tuple(colour)
        self.axes = {name: space.axis(name + suffix) for name in PROPERTIES if name + suffix in space.names}
        self.shapes = [shape]
        self._check()

    @property
    def factors(self) -> tuple[str, ...]:
        """Names of its factors, in the order of the space."""
        return tuple(name for axis, name in enumerate(self.space.names) if axis in self.axes.values())

    def _factor(self, name: str) -> Factor:
        return self.space.factors[name + self.suffix]

    def _check(self) -> None:
        for name in self.axes:
            factor, told = self._factor(name), f"Factor {name + self.suffix!r}"
            if factor.categorical != (name == "colour") and name != "shape":
                wanted = f"labels among {', '.join(COLOURS)}" if name == "colour" else "numbers"
                raise InputError(f"{told} takes {wanted}. Got {factor.range}.", name + self.suffix)
            if name == "size" and factor.low <= 0:
                raise InputError(f"{told} is in pixels, so its values must be above 0. Got {factor.range}.")
        if "shape" in self.axes:
            factor = self._factor("shape")
            self.shapes = list(factor.labels if factor.categorical else list(SHAPES)[: factor.size])
            if len(self.shapes) < factor.size:
                raise InputError(f"There are {len(SHAPES)} shapes: {', '.join(SHAPES)}. Got {factor.size} values.")
        if "colour" in self.axes:
            check_names(self._factor("colour").labels, COLOURS, "colour")
            if "hue" in self.axes:
                raise InputError(
                    f"An object can have a factor 'colour' or a factor 'hue', but not both. Got {self.factors}."
                )
        check_names(self.shapes, SHAPES, "shape")
        for name, pixels in zip(PLACES, reversed(self.sides)):
            check_inside(self.space, name + self.suffix, pixels)

    def shown(self, present: Present) -> Bool[Tensor, "*shape 1 1"] | None:
        """Whether any of its factors is present; None if all are."""
        return None if present is None else present[..., list(self.axes.values())].any(-1)[..., None, None]

    def alpha(self, values: Float[Tensor, "*shape factor"], present: Present) -> Float[Tensor, "*shape row column"]:
        """How much of each pixel the object covers. Along an absent place it is extended over the whole image."""
        across, up = self.offsets(values, present)
        half = self.half_size(values, present)
        if len(self.shapes) == 1:
            return SHAPES[self.shapes[0]](across, up, half, self.edge)
        places = self._factor("shape").position(values[..., self.axes["shape"]].detach())
        which = places.round().clamp(0, len(self.shapes) - 1)[..., None, None]
        drawn = torch.zeros((), dtype=values.dtype, device=values.device)
        for index, name in enumerate(self.shapes):
            drawn = torch.where(which == index, SHAPES[name](across, up, half, self.edge), drawn)
        return drawn

    def colour(self, values: Float[Tensor, "*shape factor"], present: Present) -> Float[Tensor, "*shape 3"]:
        """Its colour; white where the factor that drives it is absent."""
        driver = next((name for name in ("colour", "hue") if name in self.axes), None)
        if driver is None:
            return values.new_tensor(self.own_colour).expand(*values.shape[:-1], 3)
        axis = self.axes[driver]
        if driver == "hue":
            found = hue_colour(values[..., axis])
        else:
            found = named_colours(self._factor("colour"), values[..., axis])
        return found if present is None else torch.where(present[..., axis, None], found, torch.ones_like(found))

    def offsets(
        self, values: Float[Tensor, "*shape factor"], present: Present = None
    ) -> tuple[Float[Tensor, "*shape column"], Float[Tensor, "*shape row"]]:
        """How far the columns and the rows lie from the object's middle; 0 along an absent place."""
        return self._offsets("x", values, present), self._offsets("y", values, present)

    def half_size(self, values: Float[Tensor, "*shape factor"], present: Present = None) -> Float[Tensor, "*shape 1"]:
        """Half its width and height."""
        if "size" not in self.axes:
            return values.new_tensor(self.diameter / 2).expand(*values.shape[:-1], 1)
        found = values[..., self.axes["size"], None]
        known = found if present is None else torch.where(present[..., self.axes["size"], None], found, self.diameter)
        return known / 2

    def _offsets(self, name: str, values: Tensor, present: Present) -> Float[Tensor, "*shape pixel"]:
        index = PLACES.index(name)
        pixels = torch.arange(self.sides[1 - index], dtype=values.dtype, device=values.device)
        if name not in self.axes:
            return (pixels - self.place[index]).expand(*values.shape[:-1], len(pixels))
        axis = self.axes[name]
        offsets = self._factor(name).difference(pixels, values[..., axis, None])
        return offsets if present is None else torch.where(present[..., axis, None], offsets, 0.0)


def named_colours(factor: Factor, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape 3"]:
    """The colours that a factor's labels name."""
    table = values.new_tensor([COLOURS[label] for label in factor.labels])
    return table[factor.position(values.detach()).round().long().clamp(0, factor.size - 1)]


def check_names(given: Sequence[str], known: Mapping[str, object], what: str) -> None:
    """Raise unless all are known."""
    for name in given:
        if name not in known:
            raise InputError(f"There is no {what} {name!r}{nearest(name, known)}. Known: {', '.join(known)}.")


def check_inside(space: FactorSpace, name: str, pixels: int) -> None:
    """Raise if a place leaves the image."""
    factor = space.factors.get(name)
    if factor is not None and (factor.low < -0.5 or factor.high > pixels - 0.5):
        raise InputError(
            f"Factor {name!r} counts pixels from 0, but its values {factor.low:g} … {factor.high:g} do not fit into "
            f"{pixels} pixels. Start it at 0, or give the scene more rows or columns."
        )


def check_factors(space: FactorSpace, known: Sequence[str], what: str) -> None:
    """Raise if the space has other factors than those known."""
    strange = [name for name in space.names if name not in known]
    if strange:
        close = "".join(nearest(name, known) for name in strange[:1])
        raise InputError(f"{what} may have the factors {', '.join(known)}. Got {', '.join(strange)}{close}.")


def image_side(space: FactorSpace, names: Sequence[str]) -> int | None:
    """How many pixels hold the places that the factors take, with as much room after the last as before the first."""
    factors = [space.factors[name] for name in names if name in space.names]
    numbers = [factor for factor in factors if not factor.categorical]
    if not numbers:
        return None
    ends = [f.low + f.high + 1 if f.kind == "discrete" else f.low + f.end for f in numbers]
    return max(1, math.ceil(max(ends) - 1e-6))
