"""The thresholds of cell classes and verdicts, each stated once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """What the numbers are compared with. Energies are squared norms, relative to what is named.

    Attributes:
        right: Largest residual of an output that is right, a copy, or has the right form, relative to the truth's (or
            the output's own) energy around the mean. To it, twice the median residual of trained cells is added.
        exact: Residual below which a copy, a wrong value or the right form is preferred to any sum.
        blur: The same, times the median residual of trained cells, for a wrong value and (times the square of the
            strength) for the right form.
        margin: How far beyond the middle between two images an output must lie to be told from the other.
        as_well: Two explanations explain equally well if their residuals differ by less than this factor.
        mostly: Smallest share of an output that a sum of memories must explain.
        clearly: By how much that share must exceed the truth's, and the share of unrelated trained outputs.
        remains: Or how small a part of what those leave unexplained it may leave.
        learnt: Largest relative error on trained cells, and the smallest share of them that must be right.
        composes: Largest share of unseen cells that are not right, relative to trained cells.
        partly: Smallest share of unseen cells that must be right.
        majority: Smallest share of the wrong cells that a way of failing must account for.
        excess: By how much that share must exceed the one of trained cells as if unseen.
        structure: The same without truth, where copies count as sums, too.
        factor_fails: Largest share of unseen cells whose value of a factor is right, for the factor to fail.
        scale: Largest error, relative, that remains after changing contrast and offset, to call scales different.
        fewest: Fewest unseen cells.
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
