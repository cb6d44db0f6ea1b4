"""The settings of the bank: which scene, grid, hold-out and nuisances each case has, drawn by seed.

The two halves differ by their seed only. Both seeds were fixed before the verdict was written; the cases of the half
kept apart were not looked at while it was built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.verdicts.kinds import KINDS
from benchmarks.verdicts.scenes import SHAPES, Scene
from benchmarks.verdicts.splits import SPLITS

Half = Literal["design", "apart"]
SEEDS: dict[Half, int] = {"design": 20_241, "apart": 77_003}
DRAWS = 2  # of each kind, number of factors and grey or colour, in each half
SCENES: dict[tuple[int, bool], tuple[tuple[str, ...], ...]] = {
    (2, False): (("x", "y"), ("x", "size"), ("shape", "x"), ("x", "angle")),
    (2, True): (("x", "hue"), ("shape", "hue"), ("hue", "background"), ("x", "y")),
    (3, False): (("x", "y", "size"), ("shape", "x", "y"), ("shape", "x", "size")),
    (3, True): (("shape", "x", "hue"), ("x", "y", "hue"), ("x", "hue", "background")),
    (4, False): (("shape", "x", "y", "size"), ("x", "y", "size", "angle")),
    (4, True): (("shape", "x", "y", "hue"), ("shape", "x", "size", "hue"), ("x", "y", "hue", "background")),
}
# The least and most values of each factor, by number of factors.
SIZES = {
    2: {"x": (8, 15), "y": (8, 15), "size": (5, 8), "shape": (4, 6), "angle": (8, 12), "hue": (6, 9),
        "background": (5, 7)},
    3: {"x": (5, 9), "y": (5, 8), "size": (4, 5), "shape": (3, 5), "angle": (6, 8), "hue": (4, 6),
        "background": (3, 5)},
    4: {"x": (4, 6), "y": (4, 5), "size": (3, 4), "shape": (3, 4), "angle": (4, 5), "hue": (3, 4),
        "background": (3, 4)},
}  # fmt: skip
NOISE, BLUR, STRENGTH = (0.0, 0.0, 0.01, 0.03), (0.0, 0.0, 0.5), (1.0, 1.0, 0.85, 1.15)


@dataclass(frozen=True)
class Settings:
    """One case before it is made.

    Attributes:
        kind: Name of the kind of decoder.
        seed: Of everything drawn for it.
        n_factors, colour: What scene it has.
    """

    kind: str
    seed: tuple[int, ...]
    n_factors: int
    colour: bool

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.n_factors} factors, {'colour' if self.colour else 'grey'}, draw {self.seed[-1]}"


def settings(half: Half, draws: int = DRAWS) -> Iterator[Settings]:
    """All settings of one half."""
    for index, kind in enumerate(KINDS):
        for n_factors in (2, 3, 4):
            for colour in (False, True):
                for draw in range(draws):
                    seed = (SEEDS[half], index, n_factors, int(colour), draw)
                    yield Settings(kind, seed, n_factors, colour)


def draw_scene(n_factors: int, colour: bool, random: np.random.Generator) -> Scene:
    """A scene with a grid."""
    names = SCENES[n_factors, colour][int(random.integers(len(SCENES[n_factors, colour])))]
    factors = {name: int(random.integers(SIZES[n_factors][name][0], SIZES[n_factors][name][1] + 1)) for name in names}
    shape = "bar" if "angle" in names else str(random.choice(["bump", *SHAPES[:5]]))
    return Scene(
        factors=factors,
        colour=colour,
        pixels=int(random.integers(12, 19)),
        softness=float(random.uniform(0.6, 1.6)),
        shape=shape,
        ground=float(random.choice([0.0, 0.0, 0.1, 0.9, 1.0] if not colour else [0.0, 0.0, 0.2, 0.5])),
    )


def draw_split(kind: str, scene: Scene, random: np.random.Generator) -> tuple[str, np.ndarray]:
    """A hold-out, by name and as an array (cell,)."""
    names = KINDS[kind].splits or tuple(name for name in SPLITS if name != "three_cells")
    name = str(random.choice(names))
    return name, SPLITS[name](scene.sizes, random).reshape(-1)


def draw_nuisance(kind: str, random: np.random.Generator) -> dict[str, float]:
    """What is done to all outputs."""
    drawn = {
        "noise": min(float(random.choice(NOISE)), KINDS[kind].noise),
        "blur": float(random.choice(BLUR)),
        "strength": float(random.choice(STRENGTH)),
    }
    return drawn if KINDS[kind].nuisance else {"noise": 0.0, "blur": 0.0, "strength": 1.0}
