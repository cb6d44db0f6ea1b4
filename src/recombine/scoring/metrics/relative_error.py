"""Mean squared error relative to the variance of the truth."""

from __future__ import annotations

import numpy as np

from recombine.core.statistics import ratio
from recombine.scoring.metrics.metric import METRICS, Metric, distance


@METRICS.register
class RelativeError(Metric):
    """Mean squared error divided by the variance of the truth over all available cells.

    0 is exact, and the best constant output has 1 on average over all cells. It makes errors comparable between scenes
    of different brightness and size. NaN if the truth is the same for all cells (0/0).
    """

    name = "relative_error"
    order = 2
    headline = 3
    label = "error, relative to the truth's variance"
    log = True

    def compute(self, outputs, targets, values, task):
        return distance(outputs, targets)

    def finish(self, found, truth):
        return ratio(found, np.full(len(found), truth.variance))
