"""The thresholds of cell classes and verdicts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """The thresholds. Energies are squared norms, relative to the quantity that is named.

    Attributes:
        right: Largest residual of an output that is right, a copy, or has the right form, relative to the energy of
            the truth (or of the output) around the mean. Twice the median residual of trained cells is added to it.
        exact: Residual below which a copy, a wrong value or the right form is preferred to any sum.
        blur: The same, times the median residual of trained cells, for a wrong value and (times the square of the
            strength) for the right form.
        margin: Smallest distance from the midpoint between two images at which an output is assigned to one of them.
        as_well: Two explanations are equally good if their residuals differ by less than this factor.
        mostly: Smallest share of an output that a sum of memories must explain.
        clearly: Smallest difference between that share and those of the truth and of unrelated trained outputs.
        remains: Alternatively, largest ratio of its residual to theirs.
        learnt: Largest relative error on trained cells, and the smallest share of them that must be right.
        composes: Largest share of unseen cells that are not right, relative to trained cells.
        partly: Smallest share of unseen cells that must be right.
        majority: Smallest share of the wrong cells that a failure mode must account for.
        excess: Smallest difference between that share and the one among trained cells treated as if unseen.
        structure: The same without truth, where copies count as sums.
        factor_fails: Largest share of unseen cells with the right value of a factor for which the factor fails.
        scale: Largest relative error, after adjusting contrast and offset, for which scales count as different.
        fewest: Smallest number of unseen cells.
    """

    right: float = 0.1
    exact: float = 0.03
    blur: float = 1.5
    margin: float = 0.1
    as_well: float = 1.5
    mostly: float = 0.5
    clearly: float = 0.25
    remains: float = 0.25
    learnt: float = 0.5
    composes: float = 0.05
    partly: float = 0.1
    majority: float = 0.5
    excess: float = 0.25
    structure: float = 0.5
    factor_fails: float = 0.5
    scale: float = 0.1
    fewest: int = 5


THRESHOLDS = Thresholds()
