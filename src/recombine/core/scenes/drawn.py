"""Shared code of scenes with drawn objects: the image size, objects side by side, and drawing in chunks."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from jaxtyping import Bool, Float, Real
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.scenes.drawing import in_chunks
from recombine.core.scenes.objects import SceneObject, image_side
from recombine.core.scenes.scene import Scene


class DrawnScene(Scene):
    """A scene whose y counts upwards and whose images are drawn by `_draw`.

    Attributes:
        no_absent: The error message for absent factors, for scenes without `has_absent`.
    """

    row_0 = "bottom"
    no_absent: ClassVar[str] = ""

    def __call__(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, "*shape ..."]:
        if present is not None and not self.has_absent and not bool(present.all()):
            raise InputError(self.no_absent)
        return in_chunks(self._draw, self.space.checked(values), present, self.output_shape)

    @abstractmethod
    def _draw(self, values: Tensor, present: Tensor | None) -> Tensor:
        """The images (…, *output_shape) of values that were checked."""


def places(size: int, low: float, step: float) -> dict[str, Any]:
    """A factor of places in pixels, as configurations write it."""
    return {"kind": "discrete", "size": size, "low": low, "step": step}


def image_sides(
    space: FactorSpace,
    rows: int | None,
    columns: int | None,
    *,
    suffixes: Sequence[str] = ("",),
    usual: int | None = None,
) -> tuple[int, int]:
    """(rows, columns) of the image: as given, as the places need, or `usual` (by default as the other side)."""
    high, wide = (image_side(space, [axis + suffix for suffix in suffixes]) for axis in ("y", "x"))
    rows, columns = rows or high or usual, columns or wide or usual
    rows, columns = rows or columns, columns or rows
    assert rows is not None
    assert columns is not None
    return rows, columns


def side_by_side(
    space: FactorSpace,
    sides: tuple[int, int],
    suffixes: Sequence[str],
    colours: Sequence[Sequence[float]],
    *,
    diameter: float,
    edge: float,
    shape: str = "circle",
) -> list[SceneObject]:
    """One object per suffix, each in its own colour; x of object k of K is (k − ½)/K of the width unless a factor."""
    return [
        SceneObject(
            space,
            sides,
            suffix=suffix,
            place=((index + 0.5) / len(suffixes) * sides[1] - 0.5, None),
            diameter=diameter,
            edge=edge,
            shape=shape,
            colour=colours[index % len(colours)],
        )
        for index, suffix in enumerate(suffixes)
    ]


def numbered(space: FactorSpace, properties: tuple[str, ...], what: str) -> list[str]:
    """The numbers "1", "2", … of a scene's objects, from the names of its factors: x1, y1, x2, …"""
    found: dict[str, str] = {}
    for name in space.names:
        match = re.fullmatch(rf"({'|'.join(properties)})([1-9]\d?)", name)
        if match is None:
            raise InputError(
                f"{what} must have factors named by property and number, such as {properties[0]}1 and "
                f"{properties[1]}2; properties: {', '.join(properties)}. Got {name!r}."
            )
        found[match[2]] = name
    suffixes = sorted(found, key=int)
    if suffixes != [str(k + 1) for k in range(len(suffixes))]:
        raise InputError(f"{what} must be numbered from 1 without gaps. Got factors {', '.join(space.names)}.")
    return suffixes
