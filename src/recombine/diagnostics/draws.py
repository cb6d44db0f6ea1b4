"""Combines several draws of a model's noise: one verdict, and notes if the draws disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.verdict.kinds import VerdictKind
from recombine.diagnostics.verdict.verdict import Verdict

VERDICTS, NO_SPREAD = "verdicts", "no_spread"  # facts of the part `draws`


class DrawVerdicts(NamedTuple):
    """The verdicts on the draws, one each, and on the mean over all of them."""

    draws: Sequence[Verdict]
    mean: Verdict

    @property
    def counts(self) -> dict[VerdictKind, int]:
        """The number of draws with each kind of verdict, most frequent first; ties go to the earliest draw."""
        return dict(Counter(verdict.kind for verdict in self.draws).most_common())

    @property
    def common(self) -> Verdict:
        """The verdict on the first draw that has the most frequent kind."""
        kind = next(iter(self.counts))
        return next(verdict for verdict in self.draws if verdict.kind is kind)

    @property
    def told(self) -> str:
        """The kinds of the draws and of their mean, in words."""
        counts = ", ".join(f"{kind} ({count})" for kind, count in self.counts.items())
        return f"{len(self.draws)} draws: {counts}; their mean: {self.mean.kind}"


def verdicts_of(part: PartResult) -> DrawVerdicts | None:
    """The verdicts stored in the part `draws`; None if it was not computed or there is no hold-out."""
    if not part.computed or VERDICTS not in part.facts:
        return None
    found = part.facts[VERDICTS]
    return DrawVerdicts([Verdict.from_json(one) for one in found["draws"]], Verdict.from_json(found["mean"]))


def verdict_of_draws(part: PartResult, first: Verdict) -> Verdict:
    """The most frequent verdict, with the others in its sentence; with a single draw, its verdict."""
    found = verdicts_of(part)
    if found is None:
        return first
    return replace(found.common, sentence=f"{found.common.sentence} ({found.told}.)")


def notes_on_draws(part: PartResult) -> list[str]:
    """Notes for draws that disagree with each other or with their mean, or that are all the same."""
    if not part.computed:
        return []
    if part.facts[NO_SPREAD]:
        return [
            "all draws gave the same outputs: the model has no noise, or its noise is fixed. recombine.adapt(model, "
            "noise=…) samples new noise for every draw."
        ]
    found = verdicts_of(part)
    if found is None:
        return []
    notes = []
    if len(found.counts) > 1:
        notes.append(f"the verdict differs between draws of the noise ({found.told}).")
    if found.mean.kind is not found.common.kind:
        notes.append(
            f"most draws have the verdict {found.common.kind}, but their mean has the verdict {found.mean.kind}."
        )
    return notes
