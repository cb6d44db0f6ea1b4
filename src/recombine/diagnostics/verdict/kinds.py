"""Kinds of verdicts, and reasons why there is none."""

from __future__ import annotations

from enum import StrEnum


class VerdictKind(StrEnum):
    """What a model does with unseen combinations."""

    COMPOSES = "composes"
    PARTLY = "partly composes"
    SUPERPOSES = "superposes"
    COPIES = "copies"
    COLLAPSES = "collapses"
    NOT_LEARNT = "not learnt"
    FAILS = "fails otherwise"
    UNDECIDED = "undecided"


class Undecided(StrEnum):
    """Why there is no verdict."""

    NO_TRUTH = "no truth"
    NO_HOLDOUT = "no hold-out"
    NOT_COMPUTED = "not computed"
    NOTHING_UNSEEN = "nothing unseen"
    NOTHING_TRAINED = "nothing trained"
    TOO_FEW_CELLS = "too few cells"
    DIFFERENT_SCALES = "different scales"
    RUNS_DISAGREE = "runs disagree"

    @property
    def meaning(self) -> str:
        """The reason in a sentence."""
        return REASONS[self]


REASONS = {
    Undecided.NO_TRUTH: "deciding whether unseen outputs are right requires the truth, but no target was given",
    Undecided.NO_HOLDOUT: "no hold-out was given, so no combination counts as unseen",
    Undecided.NOT_COMPUTED: "the superposition part, which classifies every unseen cell, was not computed",
    Undecided.NOTHING_UNSEEN: "the hold-out is empty, so no combination is unseen",
    Undecided.NOTHING_TRAINED: "the hold-out contains every combination, so no trained outputs exist for comparison",
    Undecided.TOO_FEW_CELLS: "there are too few unseen combinations",
    Undecided.DIFFERENT_SCALES: (
        "the outputs for trained combinations equal the truth up to contrast and offset, so the truth and the "
        "outputs have different scales"
    ),
    Undecided.RUNS_DISAGREE: "the runs disagree, and no verdict holds for more than half of them",
}
