"""Mean squared error, relative to how much the truth varies."""

from __future__ import annotations

import numpy as np

from recombine.core.statistics import ratio
from recombine.scoring.metrics.metric import METRICS, Metric, distance


@METRICS.register
class RelativeError(Metric):
    """Mean squared error divided by the variance of the truth over all available cells.

    0 is exact; on average over all cells 1 is what the best constant output reaches. It makes errors of scenes of
    different brightness and size comparable. NaN where the truth is the same for all cells (0/0).
    """

    name = "relative_error"
    order = 2
    label = "error, relative to the truth's variance"
    log = True

    def compute(self, outputs, targets, values, task):
        return distance(outputs, targets)

    def finish(self, found, truth):
        return ratio(found, np.full(len(found), truth.variance))
