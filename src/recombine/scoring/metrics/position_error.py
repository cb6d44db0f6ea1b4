"""Distance between the drawn object and its true position."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.images import image_axes
from recombine.core.task import Task
from recombine.scoring.metrics.metric import METRICS, Metric


@METRICS.register
class PositionError(Metric):
    """Distance from the brightest pixel (the darkest of an inverted scene) to the true position, in pixels.

    The channels of a colour image are added first. In the inverse task, it is the distance between decoded and true
    factor values in grid steps, over all factors with distances. Range [0, ∞); NaN if an output is not finite.
    """

    name = "position_error"
    order = 5
    label = "position error"
    unit = "px"

    def applies(self, task):
        if task.inverse:
            return any(not factor.categorical for factor in task.space.factors.values())
        return has_position(task)

    def compute(self, outputs, targets, values, task):
        if not task.inverse:
            return pixel_offsets(outputs, values, task).square().sum(-1).sqrt()
        steps = factor_steps(outputs, values, task)
        kept = [axis for axis, factor in enumerate(task.space.factors.values()) if not factor.categorical]
        return steps[:, kept].square().sum(-1).sqrt()


def has_position(task: Task) -> bool:
    """Whether the scene defines the position of its object in the image."""
    return task.scene.has_position and image_axes(task.scene.output_shape) is not None


def pixel_offsets(outputs: Tensor, values: Tensor, task: Task) -> Float[Tensor, "cell 2"]:
    """Brightest pixel minus true position: (column, row)."""
    image = outputs if outputs.ndim == 3 else outputs.sum(1)
    flat = image.flatten(1)
    peak = flat.argmin(1) if task.scene.inverted else flat.argmax(1)
    columns = image.shape[-1]
    pixels = torch.stack([peak % columns, peak // columns], dim=-1).to(values.dtype)
    pixels = torch.where(flat.isfinite().all(1, keepdim=True), pixels, math.nan)
    offsets = task.scene.pixel_offsets(pixels, values)
    assert offsets is not None, f"{task.scene} declares a position but returns none"
    return offsets


def factor_steps(outputs: Tensor, values: Tensor, task: Task) -> Float[Tensor, "cell factor"]:
    """Decoded minus true factor values of the inverse task, in grid steps; 0 or 1 for a categorical factor."""
    found = task.encoding.decode(outputs)
    steps = [factor.steps(found[:, a], values[:, a]) for a, factor in enumerate(task.space.factors.values())]
    return torch.stack(steps, dim=-1)
