"""Hold the verdict against the bank: how often it is right, and in which way it is wrong."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.verdicts.bank import Case
from benchmarks.verdicts.scenes import CYCLIC
from recombine.core.factors import FactorSpace, cyclic
from recombine.diagnostics.cells.classes import classify
from recombine.diagnostics.cells.evidence import Evidence, gather_evidence
from recombine.diagnostics.cells.thresholds import THRESHOLDS, Thresholds
from recombine.diagnostics.verdict import Verdict, VerdictKind, judge

NO_SHARE = frozenset({"not learnt", "undecided"})  # verdicts that say nothing about the share of right cells
CLAIMS = frozenset({"superposes", "copies"})  # what a decoder without a gap must never be called


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the verdict on one case was.

    Attributes:
        case: The case, without its images.
        evidence: What the verdict rests on.
        verdict: The verdict.
        cells_right: Share of unseen cells whose class is accepted.
    """

    case: Case
    evidence: Evidence
    verdict: Verdict
    cells_right: float

    @property
    def right(self) -> bool:
        return str(self.verdict.kind) in self.case.decoder.verdicts

    @property
    def share_off(self) -> float:
        """How far the share of right cells is from what is accepted; 0 where it does not matter."""
        if self.case.decoder.verdicts & NO_SHARE:
            return 0.0
        low, high = self.case.decoder.right_share
        return max(low - self.verdict.right, self.verdict.right - high, 0.0)

    @property
    def factors_right(self) -> bool | None:
        """Whether exactly the failing factors are named; None if the case has none."""
        failing = self.case.decoder.failing
        return set(self.verdict.failing) == failing if failing else None

    @property
    def without_gap(self) -> bool:
        """Whether a decoder without a gap is said to superpose or copy."""
        return not self.case.decoder.gap and str(self.verdict.kind) in CLAIMS


def space_of(case: Case) -> FactorSpace:
    """The factor space of a case."""
    sizes = zip(case.grid.names, case.grid.sizes, strict=True)
    return FactorSpace(**{name: cyclic(float(size), size) if name in CYCLIC else size for name, size in sizes})


def evidence_of(case: Case, *, truth: bool = True) -> Evidence:
    """The evidence on a case, with the truth given or not."""
    grid, held = case.grid, torch.from_numpy(case.grid.ood)
    outputs, right = (
        torch.from_numpy(images).reshape(-1, *grid.image_shape) for images in (case.decoder.outputs, grid.truth)
    )
    return gather_evidence(outputs, space_of(case), trained=~held, unseen=held, truth=right if truth else None)


def outcomes(cases: Iterable[Case], *, truth: bool = True, thresholds: Thresholds = THRESHOLDS) -> Iterator[Outcome]:
    """The verdict on each case."""
    nothing = np.zeros((0, 0))
    for case in cases:
        found = evidence_of(case, truth=truth)
        light = dataclasses.replace(
            case,
            grid=dataclasses.replace(case.grid, truth=nothing),
            decoder=dataclasses.replace(case.decoder, outputs=nothing),
        )
        yield outcome(light, found, thresholds)


def outcome(case: Case, found: Evidence, thresholds: Thresholds = THRESHOLDS) -> Outcome:
    """The verdict that follows from evidence."""
    unseen = classify(found.unseen, found, thresholds)
    accepted = [str(one) in allowed for one, allowed in zip(unseen.classes, case.decoder.classes, strict=True)]
    return Outcome(case, found, judge(found, thresholds, unseen=unseen), float(np.mean(accepted)))


def confusion(found: Sequence[Outcome]) -> dict[str, Counter[str]]:
    """Accepted verdicts → how often each verdict was given."""
    order = [str(kind) for kind in VerdictKind]
    rows: dict[str, Counter[str]] = {}
    for one in found:
        accepted = " or ".join(sorted(one.case.decoder.verdicts, key=order.index))
        rows.setdefault(accepted, Counter())[str(one.verdict.kind)] += 1
    return dict(sorted(rows.items(), key=lambda row: order.index(row[0].split(" or ")[0])))


def numbers(found: Sequence[Outcome]) -> dict[str, float]:
    """The numbers that the bank is about."""
    named = [one.factors_right for one in found if one.factors_right is not None]
    off = [one.share_off for one in found if not one.case.decoder.verdicts & NO_SHARE]
    return {
        "cases": len(found),
        "verdicts right": float(np.mean([one.right for one in found])),
        "cells right": float(np.mean([one.cells_right for one in found])),
        "shares of right cells within 5 points": float(np.mean([share <= 0.05 for share in off])),
        "largest error of a share": max(off, default=0.0),
        "cases with a failing factor": len(named),
        "failing factor named": float(np.mean(named)) if named else float("nan"),
        "superposes or copies without a gap": sum(one.without_gap for one in found),
    }


def moved(thresholds: Thresholds, names: Iterable[str], by: float) -> Thresholds:
    """Thresholds, some of them multiplied."""
    changed = {name: by * getattr(thresholds, name) for name in names}
    return dataclasses.replace(thresholds, **{n: round(v) if n == "fewest" else v for n, v in changed.items()})


def stability(found: Sequence[Outcome], by: float = 0.2) -> Iterator[tuple[str, float, float, float]]:
    """(threshold, value, share of verdicts that change with it lowered, raised); all of them together last."""
    names = [field.name for field in dataclasses.fields(Thresholds)]
    for label, some in [*((name, [name]) for name in names), ("all together", names)]:
        changes = []
        for factor in (1 - by, 1 + by):
            other = moved(THRESHOLDS, some, factor)
            changes.append(float(np.mean([judge(one.evidence, other).kind != one.verdict.kind for one in found])))
        yield label, getattr(THRESHOLDS, label, float("nan")), changes[0], changes[1]


def claims_without_truth(found: Sequence[Outcome]) -> dict[str, float]:
    """What is said without truth: how often something wrong, and how much of what could be said."""
    decisive = {"superposes", "copies", "collapses"}
    able = [one for one in found if one.case.decoder.verdicts <= decisive]
    false = [one for one in found if one.verdict.kind is not VerdictKind.UNDECIDED and not one.right]
    return {
        "cases": len(found),
        "wrong claims": len(false),
        "wrong claims without a gap": sum(one.without_gap for one in found),
        "cases that structure alone could tell": len(able),
        "of these told": float(np.mean([one.right for one in able])) if able else float("nan"),
    }
