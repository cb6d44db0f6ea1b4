"""Claims of the paper: parts with statistics, thresholds and directions, written down before the runs.

`edition_1` and `edition_2` contain the two tables of claims, and `verdicts` compares measured numbers with them.
docs/statistics.md shows both tables with their reasons; a test keeps the page and the tables in sync.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Direction = Literal["above", "below", "within"]


class Test(StrEnum):
    """The test of a part over seeds."""

    __test__ = False  # tells pytest that this class is not a test case

    MEAN = "mean"  # Student's t test of the mean
    MEDIAN = "median"  # exact sign test of the median, for numbers with outlier seeds
    FIT = "fit"  # likelihood ratio of a model fitted to all seeds at once


@dataclass(frozen=True)
class ClaimPart:
    """A number that must lie on one side of a threshold.

    Attributes:
        name: Name of the part, unique within its claim.
        statistic: Description of the number.
        direction: The side of the threshold on which the number must lie.
        threshold: The threshold; two numbers for "within".
        why: The reason for this threshold.
        test: The test over seeds.
        decides: Whether the claim depends on this part. Other parts are reported with their own verdicts.
        learnt: Whether only networks that have learnt their training examples count.
    """

    name: str
    statistic: str
    direction: Direction
    threshold: float | tuple[float, float]
    why: str = ""
    test: Test = Test.MEAN
    decides: bool = True
    learnt: bool = False

    def __str__(self) -> str:
        if isinstance(self.threshold, tuple):
            return f"{self.direction} {self.threshold[0]:g} … {self.threshold[1]:g}"
        return f"{self.direction} {self.threshold:g}"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper. It is reproduced if all its deciding parts are, and not reproduced if any is not."""

    id: str
    text: str
    parts: tuple[ClaimPart, ...]

    def part(self, name: str) -> ClaimPart:
        """The part of this name."""
        return next(part for part in self.parts if part.name == name)
