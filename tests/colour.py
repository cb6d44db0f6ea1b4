"""A coloured task with labels and missing cells, for tests of everything that a user's own data goes through."""

import numpy as np
import torch

from recombine.core import encodings, holdouts, scenes
from recombine.core.factors import FactorSpace
from recombine.core.task import Task

COLOURS = {"red": (1.0, 0.1, 0.1), "green": (0.1, 0.9, 0.2), "blue": (0.2, 0.3, 1.0)}
SIDE = 12


class ColouredBump(scenes.Scene):
    """A bump in one of three colours on black; row 0 is on top. Blue ones never stand in the last column."""

    row_0 = "top"

    def __init__(self, space: FactorSpace) -> None:
        self.space, self.output_shape = space, (3, SIDE, SIDE)
        self.grey = scenes.Bump(FactorSpace(x=SIDE, y=SIDE), rows=SIDE, columns=SIDE)
        self.available = np.ones(space.shape, dtype=bool)
        self.available[-1, :, 2] = False

    def __call__(self, values, present=None):
        assert present is None
        values = self.space.checked(values)
        image = self.grey(2.0 * values[..., :2] + 1)
        colours = torch.tensor(list(COLOURS.values()), dtype=values.dtype, device=values.device)
        return colours[values[..., 2].round().long()][..., None, None] * image.unsqueeze(-3)


def coloured_task(*, inverse: bool = False) -> Task:
    """5 × 5 places in 3 colours; green in the middle is held out, blue in the last column does not exist."""
    space = FactorSpace(x=5, y=5, colour=list(COLOURS))
    held = np.zeros(space.shape, dtype=bool)
    held[1:4, 1:4, 1] = True
    return Task(ColouredBump(space), encodings.OneHot(space), holdouts.mask(space, held), inverse=inverse)
