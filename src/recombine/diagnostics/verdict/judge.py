"""From the classes of cells to a verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Int

from recombine.diagnostics.cells.classes import CellClass, Classes, classify, typical_energy
from recombine.diagnostics.cells.evidence import Evidence
from recombine.diagnostics.cells.thresholds import THRESHOLDS, Thresholds
from recombine.diagnostics.verdict.kinds import Undecided, VerdictKind
from recombine.diagnostics.verdict.sentence import sentence
from recombine.diagnostics.verdict.verdict import FactorValues, Verdict

WAYS: dict[VerdictKind, frozenset[CellClass]] = {
    VerdictKind.SUPERPOSES: frozenset({CellClass.SUM}),
    VerdictKind.COPIES: frozenset({CellClass.COPY}),
    VerdictKind.COLLAPSES: frozenset({CellClass.MEAN, CellClass.BLANK}),
}
BLURRED = 0.7  # gain of high over low spatial frequencies below which outputs count as blurred
NORMAL = 1.959964  # two-sided 95 %


def undecided(reason: Undecided, thresholds: Thresholds = THRESHOLDS) -> Verdict:
    """There is no verdict, for a reason."""
    empty = Verdict(VerdictKind.UNDECIDED, "", reason, thresholds=thresholds)
    return replace(empty, sentence=sentence(empty))


def judge(
    evidence: Evidence,
    thresholds: Thresholds = THRESHOLDS,
    *,
    unseen: Classes | None = None,
    trained: Classes | None = None,
) -> Verdict:
    """The verdict that follows from the evidence.

    Args:
        evidence: Explanations of the outputs of unseen cells, and of trained cells treated as if they were unseen.
        thresholds: The thresholds.
        unseen, trained: The classes of the cells, if they are already known.
    """
    unseen = classify(evidence.unseen, evidence, thresholds) if unseen is None else unseen
    trained = classify(evidence.control, evidence, thresholds) if trained is None else trained
    found = _numbers(evidence, unseen, trained, thresholds)
    if len(unseen.cells) < thresholds.fewest:
        kind, reason = VerdictKind.UNDECIDED, Undecided.TOO_FEW_CELLS
    elif evidence.rendering is None:
        kind, reason = _without_truth(unseen, trained, thresholds)
    else:
        kind, reason = _with_truth(evidence, found, unseen, trained)
    found = replace(found, kind=kind, reason=reason)
    return replace(found, sentence=sentence(found))


def _with_truth(
    evidence: Evidence, found: Verdict, unseen: Classes, trained: Classes
) -> tuple[VerdictKind, Undecided | None]:
    t, how = found.thresholds, evidence.rendering
    assert how is not None
    right_trained = trained.share(CellClass.RIGHT)
    if how.median_error > t.learnt:
        if how.contrast_error <= t.scale:
            return VerdictKind.UNDECIDED, Undecided.DIFFERENT_SCALES
        return VerdictKind.NOT_LEARNT, None
    if how.residual > t.learnt * typical_energy(evidence):
        return VerdictKind.NOT_LEARNT, None
    if right_trained < t.learnt or any(row.trained < t.learnt for row in found.factors):
        return VerdictKind.NOT_LEARNT, None
    if found.right >= (1 - t.composes) * right_trained:
        return VerdictKind.COMPOSES, None
    if found.right >= t.partly * right_trained:
        return VerdictKind.PARTLY, None
    way = _way(unseen, trained, t, among=1 - found.right)
    return way or VerdictKind.FAILS, None


def _without_truth(unseen: Classes, trained: Classes, t: Thresholds) -> tuple[VerdictKind, Undecided | None]:
    way = _way(unseen, trained, t, among=1.0)
    if way is not None:
        alike = WAYS[way] | ({CellClass.COPY} if way is VerdictKind.SUPERPOSES else set())
        if _share(unseen, WAYS[way]) - _share(trained, alike) >= t.structure:
            return way, None
    return VerdictKind.UNDECIDED, Undecided.NO_TRUTH


def _way(unseen: Classes, trained: Classes, t: Thresholds, *, among: float) -> VerdictKind | None:
    """The failure mode of most wrong cells, if clearly fewer trained cells show it."""
    shares = {kind: _share(unseen, classes) for kind, classes in WAYS.items()}
    kind = max(shares, key=shares.__getitem__)
    excess = shares[kind] - _share(trained, WAYS[kind])
    return kind if shares[kind] >= t.majority * among and excess >= t.excess else None


def _share(found: Classes, classes: Iterable[CellClass]) -> float:
    """Share of cells whose class, or all of whose options, are among the classes."""
    wanted = set(classes)
    rows = zip(found.classes, found.options, strict=True)
    return float(np.mean([set(options or (one,)) <= wanted for one, options in rows])) if found.classes else 0.0


def _numbers(evidence: Evidence, unseen: Classes, trained: Classes, t: Thresholds) -> Verdict:
    """Everything but the kind and the sentence."""
    how, truth = evidence.rendering, evidence.unseen.truth
    shares = _shares(unseen)
    wrong = {one: share for one, share in shares.items() if one is not CellClass.RIGHT}
    base = Verdict(
        VerdictKind.UNDECIDED,
        "",
        unseen_cells=len(unseen.cells),
        drawn_from=evidence.drawn_from,
        trained_cells=len(trained.cells),
        unseen=shares,
        trained=_shares(trained),
        manner=max(wrong, key=wrong.__getitem__) if wrong else None,
        thresholds=t,
    )
    if how is None or truth is None:
        return base
    right = unseen.share(CellClass.RIGHT)
    return replace(
        base,
        right=right,
        interval=wilson(right, len(unseen.cells)),
        factors=_factors(evidence, unseen, trained, t),
        id_error=how.error,
        ood_error=truth.total_error,
        strength=how.gain,
        blurred=how.sharpness < BLURRED,
        noisy=how.contrast_error > t.right and how.sharpness >= BLURRED,
    )


def _shares(found: Classes) -> Mapping[CellClass, float]:
    counts = Counter(found.classes)
    return {one: counts[one] / len(found.classes) for one in CellClass if counts[one]}


def _factors(evidence: Evidence, unseen: Classes, trained: Classes, t: Thresholds) -> tuple[FactorValues, ...]:
    truth = evidence.unseen.truth
    assert truth is not None
    assert unseen.values_right is not None
    assert trained.values_right is not None
    rows = []
    for axis, name in enumerate(evidence.space.names):
        here, there = float(unseen.values_right[:, axis].mean()), float(trained.values_right[:, axis].mean())
        lost = here <= t.factor_fails and there - here >= t.excess
        chance = _agreement_by_chance(truth.read[:, axis], evidence.unseen.at[:, axis])
        rows.append(FactorValues(name, here, there, lost or there < t.learnt, chance))
    return tuple(rows)


def _agreement_by_chance(shown: Int[np.ndarray, " cell"], true: Int[np.ndarray, " cell"]) -> float:
    """How often values shown (−1 for none) and true values would agree if they were independent."""
    if not len(true):
        return 0.0
    return float(sum(np.mean(shown == value) * np.mean(true == value) for value in np.unique(true)))


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share among `count` independent cells (Wilson, 1927)."""
    if count == 0 or math.isnan(share):
        return math.nan, math.nan
    wide = 1 + NORMAL**2 / count
    middle = (share + NORMAL**2 / (2 * count)) / wide
    half = NORMAL * math.sqrt(share * (1 - share) / count + NORMAL**2 / (4 * count**2)) / wide
    return max(0.0, middle - half), min(1.0, middle + half)
