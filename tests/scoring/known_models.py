"""Tasks of all output shapes, and models whose errors are known beforehand."""

import math

import torch
from torch import nn

from recombine.core import encodings, holdouts, scenes
from recombine.core.factors import FactorSpace
from recombine.core.task import Task

PLANE = FactorSpace(x=14, y=12)


def grey_task(space: FactorSpace = PLANE, *, inverse: bool = False, **scene) -> Task:
    """A bump, with the middle of the plane held out."""
    holdout = holdouts.centre(space, 4, 7, factors=["x", "y"])
    return Task(scenes.Bump(space, **scene), encodings.Bump(space), holdout, inverse=inverse)


class Patterns(scenes.Scene):
    """Smooth patterns of any output shape, different for every cell, with values in the given range."""

    def __init__(self, space: FactorSpace, shape: tuple[int, ...], value_range: tuple[float, float]) -> None:
        self.space, self.output_shape, self.value_range = space, shape, value_range

    def __call__(self, values, present=None):
        entries = torch.arange(math.prod(self.output_shape), dtype=values.dtype)
        wave = torch.sin(entries * 0.3 + values[..., :1] * 0.9) * torch.cos(entries * 0.17 + values[..., 1:2] * 0.7)
        low, high = self.value_range
        return (low + (high - low) * (1 + wave) / 2).unflatten(-1, self.output_shape)


def scene_task(*shape: int, stripe: bool = False, value_range: tuple[float, float] = (0.0, 1.0)) -> Task:
    """A task with outputs of any shape; without a place."""
    scene = scenes.Stripe(PLANE) if stripe else Patterns(PLANE, shape, value_range)
    return Task(scene, encodings.Bump(PLANE), holdouts.centre(PLANE, 4, 7))


class Truth(nn.Module):
    """Answers what is asked for: moved by some pixels, shifted, or with noise. It has no parameters."""

    def __init__(
        self, task: Task, right: float = 0.0, up: float = 0.0, *, shift: float = 0.0, noise: float = 0.0
    ) -> None:
        super().__init__()
        self.task, self.move, self.shift, self.noise = task, (right, up), shift, noise
        cells = task.space.values(torch.arange(len(task.space)))
        self.register_buffer("known", task.inputs(cells).flatten(1))
        self.register_buffer("values", cells)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        nearest = torch.cdist(given.flatten(1).to(self.known.dtype), self.known).argmin(1)
        values = self.values[nearest].clone()
        for name, by in zip(("x", "y"), self.move):
            values[:, self.task.space.axis(name)] += by
        outputs = self.task.targets(values) + self.shift
        random = torch.sin(1e4 * (1 + torch.arange(math.prod(outputs.shape[1:]))) + nearest[:, None])
        return outputs + self.noise * random.reshape(outputs.shape)
