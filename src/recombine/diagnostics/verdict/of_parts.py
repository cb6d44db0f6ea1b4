"""The verdict of a diagnosis: read from its superposition part, or undecided for a reason."""

from __future__ import annotations

from collections.abc import Mapping

from recombine.core.holdouts import Holdout
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.verdict.judge import undecided
from recombine.diagnostics.verdict.kinds import Undecided
from recombine.diagnostics.verdict.verdict import Verdict


def verdict_of(parts: Mapping[str, PartResult], holdout: Holdout | None) -> Verdict:
    """The verdict of the superposition part, or the reason why there is none."""
    part = parts["superposition"]
    if part.computed:
        return Verdict.from_json(part.facts["verdict"])
    if holdout is None:
        return undecided(Undecided.NO_HOLDOUT)
    if holdout.n_ood == 0:
        return undecided(Undecided.NOTHING_UNSEEN)
    if holdout.n_id == 0:
        return undecided(Undecided.NOTHING_TRAINED)
    return undecided(Undecided.NOT_COMPUTED)
