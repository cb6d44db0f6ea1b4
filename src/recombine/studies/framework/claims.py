"""What a claim of the paper is: parts with statistics, thresholds and directions, written down before the runs.

`edition_1` and `edition_2` hold the two tables of claims, `verdicts` holds numbers against them. docs/statistics.md
shows both tables with their reasons; a test keeps page and tables alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Direction = Literal["above", "below", "within"]


class Test(StrEnum):
    """How a part is tested over seeds."""

    __test__ = False  # not a test case

    MEAN = "mean"  # Student's t test of the mean
    MEDIAN = "median"  # exact sign test of the median: for numbers of which single seeds go astray
    FIT = "fit"  # likelihood ratio of a model fitted to all seeds at once


@dataclass(frozen=True)
class ClaimPart:
    """One number that must lie on one side of a threshold.

    Attributes:
        name: Of the part, unique within its claim.
        statistic: What the number is, in words.
        direction: On which side it must lie.
        threshold: What it is held against; two numbers for "within".
        why: Why this threshold.
        test: How it is tested.
        decides: Whether the claim hangs on it; other parts are reported beside the claim, with verdicts of their own.
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
    """A claim of the paper: reproduced if all its deciding parts are, not reproduced if any of them is not."""

    id: str
    text: str
    parts: tuple[ClaimPart, ...]

    def part(self, name: str) -> ClaimPart:
        return next(part for part in self.parts if part.name == name)
