"""Localization: whether the object is drawn in the right place."""

from __future__ import annotations

import torch

from recombine.scoring.metrics.metric import METRICS, Direction, Metric
from recombine.scoring.metrics.position_error import factor_steps, has_position, pixel_offsets

NEAR = 1 + 1e-4  # pixels or grid steps; positions carry rounding errors


@METRICS.register
class Localization(Metric):
    """1 if the brightest pixel (see `position_error`) lies within ±1 pixel of the true position in x and in y, else 0.

    In the inverse task, it is 1 if every decoded factor value lies within ±1 grid step of the true one, and equals it
    if the factor is categorical. Its mean is the share of cells drawn in the right place. NaN if an output is not
    finite.
    """

    name = "localization"
    order = 6
    headline = 2
    label = "localization"
    direction = Direction.HIGHER

    def applies(self, task):
        return task.inverse or has_position(task)

    def compute(self, outputs, targets, values, task):
        if task.inverse:
            offsets = factor_steps(outputs, values, task)
            near = [0.0 if factor.categorical else NEAR for factor in task.space.factors.values()]
        else:
            offsets = pixel_offsets(outputs, values, task)
            near = [NEAR, NEAR]
        inside = (offsets.abs() <= offsets.new_tensor(near)).all(-1).to(offsets.dtype)
        return torch.where(offsets.isnan().any(-1), torch.nan, inside)
