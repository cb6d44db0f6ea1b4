"""The interface of metrics.

    @METRICS.register
    class MeanAbsoluteError(Metric):
        name = "l1"
        label = "mean absolute error"

        def compute(self, outputs, targets, values, task):
            return (outputs - targets).abs().flatten(1).mean(1)

Every task is then scored with it: `scores.columns["l1"]`, `scores.csv`, and summaries as `id_l1` and `ood_l1`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor

from recombine.core.catalogue import Catalogue
from recombine.core.task import Task


class Direction(StrEnum):
    """Which values of a metric are better."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass
class TruthMoments:
    """Mean and variance of the targets of all scored cells, accumulated chunk by chunk."""

    count: int = 0
    total: Float[Tensor, " entry"] | None = None
    squares: float = 0.0

    def add(self, targets: Float[Tensor, "cell ..."]) -> None:
        flat = targets.detach().flatten(1).double().cpu()
        self.count += len(flat)
        self.total = flat.sum(0) if self.total is None else self.total + flat.sum(0)
        self.squares += float(flat.square().sum())

    @property
    def variance(self) -> float:
        """Mean squared distance of a target from the mean target, per entry: the error of the best constant output."""
        if self.total is None:
            return 0.0
        entries = max(1, len(self.total))
        mean_square = self.squares / (self.count * entries)
        found = mean_square - float((self.total / self.count).square().mean())
        return found if found > 1e-12 * mean_square else 0.0  # smaller values are rounding errors


class Metric(ABC):
    """One number per cell.

    Attributes:
        name: Its column.
        label: Its name in figures.
        short: Its name where space is limited; by default `name`.
        unit: Unit of its numbers; may be empty.
        direction: Whether lower or higher values are better.
        log: Whether figures use a log scale.
        order: Position among the columns.
        headline: Position in short listings of runs, starting at 1; 0 omits the metric.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    short: ClassVar[str] = ""
    unit: ClassVar[str] = ""
    direction: ClassVar[Direction] = Direction.LOWER
    log: ClassVar[bool] = False
    order: ClassVar[int] = 100
    headline: ClassVar[int] = 0

    def applies(self, task: Task) -> bool:
        """Whether the metric is defined for a task. If not, its column is absent."""
        return True

    @abstractmethod
    def compute(
        self, outputs: Float[Tensor, "cell ..."], targets: Float[Tensor, "cell ..."], values: Tensor, task: Task
    ) -> Float[Tensor, " cell"]:
        """Compute the metric of some cells.

        Args:
            outputs: The outputs of the model, one entry per cell.
            targets: The true outputs.
            values: The cells' factor values, (cell, factor).
            task: The task.
        """

    def finish(self, found: Float[np.ndarray, " cell"], truth: TruthMoments) -> Float[np.ndarray, " cell"]:
        """Called once with the numbers of all cells, for metrics that depend on the variance of the targets."""
        return found


METRICS = Catalogue[Metric]("metric", "recombine.scoring.metrics")


def metrics_of(task: Task) -> list[Metric]:
    """All registered metrics that apply to a task."""
    return [metric for metric in METRICS.values() if metric.applies(task)]


def distance(outputs: Float[Tensor, "cell ..."], targets: Float[Tensor, "cell ..."]) -> Float[Tensor, " cell"]:
    """Mean squared difference of each cell's entries."""
    return (outputs - targets).square().flatten(1).mean(1)


def value_range(task: Task) -> float:
    """Length of the range of an image's values."""
    low, high = task.scene.value_range
    return float(high - low)
