"""True images: one object on a plain background, drawn from any choice of up to seven factors.

Factors: `shape`, `x`, `y`, `size`, `angle` (cyclic, of a bar), `hue`, `background` (a hue). What is no factor stays at
its default. Grey scenes are (row, column), colour scenes (3, row, column); values lie in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SHAPES = ("disc", "square", "plus", "diamond", "ring", "bar")
CYCLIC = ("angle", "hue", "background")


@dataclass(frozen=True)
class Scene:
    """What is drawn.

    Attributes:
        factors: Name → number of values, in the order of the grid's axes.
        colour: Whether images have three channels.
        pixels: Side of the square image.
        softness: Width of the object's edge in pixels; the object itself is a bump if `shape` is "bump".
        shape: The object's shape where shape is no factor.
        ground: Brightness of the background where background is no factor.
    """

    factors: dict[str, int]
    colour: bool
    pixels: int
    softness: float
    shape: str
    ground: float

    @property
    def image_shape(self) -> tuple[int, ...]:
        return (3, self.pixels, self.pixels) if self.colour else (self.pixels, self.pixels)

    def coordinates(self) -> np.ndarray:
        """Grid positions of all cells in row-major order, (cell, factor)."""
        return np.stack(np.unravel_index(np.arange(np.prod(self.sizes)), self.sizes), axis=1)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.factors.values())

    def images(self) -> np.ndarray:
        """The true image of every cell, (cell, *image_shape)."""
        at = dict(zip(self.factors, self.coordinates().T, strict=True))
        covered = self._covered(at)
        if not self.colour:
            return self.ground + (1 - 2 * self.ground) * covered
        count = len(covered)
        ink = _colours(at["hue"] / self.factors["hue"]) if "hue" in at else np.tile([1.0, 0.35, 0.2], (count, 1))
        if "background" in at:
            ground = 0.25 + 0.3 * _colours(at["background"] / self.factors["background"])
        else:
            ground = np.full((count, 3), self.ground)
        covered = covered[:, None]
        return ground[:, :, None, None] * (1 - covered) + ink[:, :, None, None] * covered

    def _covered(self, at: dict[str, np.ndarray]) -> np.ndarray:
        """How much of each pixel the object covers, (cell, row, column), in [0, 1]."""
        count, side = int(np.prod(self.sizes)), self.pixels
        margin = 0.18 * (side - 1)

        def place(name: str) -> np.ndarray:
            if name not in at:
                return np.full(count, (side - 1) / 2)
            return margin + (side - 1 - 2 * margin) * at[name] / (self.factors[name] - 1)

        radius = np.full(count, 0.16 * side)
        if "size" in at:
            radius = 0.09 * side * (3.2 ** (at["size"] / (self.factors["size"] - 1)))
        turn = np.pi * at["angle"] / self.factors["angle"] if "angle" in at else np.zeros(count)
        rows, columns = np.mgrid[:side, :side]
        across = columns[None] - place("x")[:, None, None]
        down = rows[None] - place("y")[:, None, None]
        cos, sin = np.cos(turn)[:, None, None], np.sin(turn)[:, None, None]
        across, down = cos * across + sin * down, cos * down - sin * across
        radius = radius[:, None, None]
        if "shape" not in at:
            return self._drawn(self.shape, across, down, radius)
        drawn = [self._drawn(SHAPES[i], across, down, radius) for i in range(self.factors["shape"])]
        return np.choose(at["shape"][:, None, None], drawn)

    def _drawn(self, shape: str, across: np.ndarray, down: np.ndarray, radius: np.ndarray) -> np.ndarray:
        if shape == "bump":
            return np.exp(-(across**2 + down**2) / (2 * (0.55 * radius) ** 2))
        a, d = np.abs(across), np.abs(down)
        distance = {
            "disc": np.hypot(a, d) - radius,
            "square": np.maximum(a, d) - 0.9 * radius,
            "plus": np.minimum(np.maximum(a / 1.3, 3.0 * d), np.maximum(3.0 * a, d / 1.3)) - radius,
            "diamond": 0.7 * (a + d) - 0.9 * radius,
            "ring": np.abs(np.hypot(a, d) - radius) - 0.35 * radius,
            "bar": np.maximum(a / 1.7, 2.0 * d) - radius,
        }[shape]
        return 1 / (1 + np.exp(np.clip(distance / self.softness * 4, -30, 30)))


def _colours(hue: np.ndarray) -> np.ndarray:
    """Fully saturated colours, (cell, 3), of hues in [0, 1)."""
    offsets = np.array([0.0, 2 / 3, 1 / 3])
    away = np.abs((hue[:, None] + offsets) % 1.0 - 0.5) * 6 - 1
    return np.clip(away, 0, 1)
