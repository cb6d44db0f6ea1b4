"""What is known about a decoder of the bank.

Words of the verdict: composes, partly composes, superposes, copies, collapses, not learnt, fails otherwise, undecided.
Classes of a cell: right, wrong strength, sum, copy, mean, blank, wrong value, other.

Rules for what could be called two things:

- A memory that differs from the unseen cell in one factor is both a copy and a wrong value of that factor. Where the
  combination with the wrong value was trained on, both classes are accepted. The verdict must be *copies* where at
  least 60 % of the wrong cells are such, *fails otherwise* where at most 40 % are, and may be either in between.
- A decoder that is right on some unseen cells *partly composes*; with at most 12.5 % of them right it may be called by
  its failure instead, and with at least 87.5 % *composes*.
- An output counts as wrong only if it differs from the truth by at least 0.2 of the truth's distance from the mean
  image. Wrong outputs nearer than this may be called right, and settings in which more than 3 % of the unseen cells are
  such are drawn again.
- Where the true images are themselves sums of trained ones (the best sum explains 60 % of them or more), ghosts added
  to a right answer are a sum of trained images, too: *superposes* and *fails otherwise* are both accepted.
- A sum whose distance from the mean of all trained images is below twice the noise may be called that mean; where
  30 % of the cells are such, *collapses* is accepted beside *superposes*.
- An image that is the mean of all trained images and nearly blank may be called either.
- A decoder that answers all unseen cells with one and the same trained image *copies* or *collapses*.
- A decoder that is wrong on as large a share of the trained as of the unseen cells, and right on most, *composes* or
  *partly composes*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

NEAR = 0.2
FEW_NEAR = 0.03
SUM_LIKE = 0.6
RIGHT = frozenset({"right"})


@dataclass(frozen=True, eq=False)
class Decoder:
    """A decoder and what is known about it.

    Attributes:
        outputs: One per cell, (cell, number).
        verdicts: The words that are accepted.
        classes: The classes that are accepted, for each unseen cell in order.
        failing: The factors that fail; empty if none does, None if that is not known.
        gap: Whether unseen cells fare worse than trained ones.
    """

    outputs: np.ndarray
    verdicts: frozenset[str]
    classes: Sequence[frozenset[str]]
    failing: frozenset[str] | None = frozenset()
    gap: bool = True

    @property
    def right_share(self) -> tuple[float, float]:
        """The least and the largest share of right unseen cells that is accepted."""
        sure = np.mean([accepted == RIGHT for accepted in self.classes])
        return float(sure), float(np.mean(["right" in accepted for accepted in self.classes]))


class Unsuitable(Exception):
    """The kind cannot be made on this grid; settings are drawn again."""


def same(count: int, *classes: str) -> list[frozenset[str]]:
    """The same accepted classes for all of `count` cells."""
    return [frozenset(classes)] * count


def verdict_of_mixture(share_right: float, failure: Iterable[str]) -> frozenset[str]:
    """What is accepted for a decoder that is right on some cells and fails in one way on the others."""
    partly = {"partly composes"}
    if share_right <= 0.125:
        return frozenset(partly | set(failure))
    return frozenset(partly | {"composes"}) if share_right >= 0.875 else frozenset(partly)


def verdict_of_replaced(trained: np.ndarray) -> frozenset[str]:
    """What is accepted where each unseen cell is answered by another cell's truth; `trained`: that one was seen."""
    share = float(np.mean(trained))
    accepted = {"copies"} if share > 0.4 else set()
    return frozenset(accepted | ({"fails otherwise"} if share < 0.6 else set()))
