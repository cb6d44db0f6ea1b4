"""Mean squared error."""

from __future__ import annotations

from recombine.scoring.metrics.metric import METRICS, Metric, distance


@METRICS.register
class MeanSquaredError(Metric):
    """Mean of the squared difference over pixels and channels, or over the entries of a vector. Range [0, ∞)."""

    name = "mse"
    order = 1
    headline = 1
    label = "mean squared error"
    short = "error"
    log = True

    def compute(self, outputs, targets, values, task):
        return distance(outputs, targets)
