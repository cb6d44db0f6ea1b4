"""One verdict for several runs of the same configuration, or several draws of the same model.

    verdict_over([first.diagnosis, second.diagnosis, third.diagnosis])
    verdict_over(verdicts, of="draws")

Shares and errors are means over runs. The interval of the share of right cells is the 95 % Student's t interval of the
mean over runs, clipped to [0, 1]. The kind is the one that more than half of the runs have. If there is none, the
verdict is *partly composes* if all runs compose at least partly, and *undecided* otherwise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from recombine.core.errors import InputError
from recombine.diagnostics.cells.classes import CellClass
from recombine.diagnostics.verdict.kinds import Undecided, VerdictKind
from recombine.diagnostics.verdict.sentence import sentence
from recombine.diagnostics.verdict.verdict import FactorValues, Verdict

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

OF = ("runs", "draws")
SOME = frozenset({VerdictKind.COMPOSES, VerdictKind.PARTLY})


def verdict_over(given: Iterable[Diagnosis | Verdict], *, of: str = "runs") -> Verdict:
    """The verdict of several runs together.

    Args:
        given: Their diagnoses or verdicts, with the same factors, hold-out and thresholds. A single one is returned
            unchanged.
        of: What they are, for the sentence: "runs" or "draws".

    Raises:
        InputError: if there are none, or if they cannot be combined.
    """
    if of not in OF:
        raise InputError(f"The 'of' parameter of verdict_over must be one of {', '.join(OF)}. Got {of!r} instead.")
    found = list(given)
    verdicts = [one if isinstance(one, Verdict) else one.verdict for one in found]
    _check(found, verdicts)
    if len(verdicts) == 1:
        return verdicts[0]
    kinds = dict(Counter(one.kind for one in verdicts).most_common())
    kind, reason = _kind(verdicts, kinds)
    unseen, trained = (_mean_shares([getattr(one, side) for one in verdicts]) for side in ("unseen", "trained"))
    wrong = {one: share for one, share in unseen.items() if one is not CellClass.RIGHT}
    largest = max(verdicts, key=lambda one: one.unseen_cells)
    rights = [one.right for one in verdicts]
    joined = replace(
        largest,
        kind=kind,
        reason=reason,
        trained_cells=max(one.trained_cells for one in verdicts),
        right=_mean(rights),
        interval=student_interval(rights),
        unseen=unseen,
        trained=trained,
        manner=max(wrong, key=wrong.__getitem__) if wrong else None,
        factors=_factors(verdicts),
        id_error=_mean([one.id_error for one in verdicts]),
        ood_error=_mean([one.ood_error for one in verdicts]),
        strength=_mean([one.strength for one in verdicts]),
        blurred=_mostly([one.blurred for one in verdicts]),
        noisy=_mostly([one.noisy for one in verdicts]),
        runs=len(verdicts),
        kinds=kinds,
    )
    return replace(joined, sentence=f"{sentence(joined)} {_told(joined, of)}")


def student_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean share by Student's t, within [0, 1]. NaN for fewer than two known values."""
    known = np.array([value for value in values if not math.isnan(value)])
    if len(known) < 2:
        return math.nan, math.nan
    from scipy.stats import t

    half = float(t.ppf(0.975, len(known) - 1)) * float(known.std(ddof=1)) / math.sqrt(len(known))
    return max(0.0, float(known.mean()) - half), min(1.0, float(known.mean()) + half)


def _check(given: Sequence[object], verdicts: Sequence[Verdict]) -> None:
    if not verdicts:
        raise InputError("There is no verdict to combine. Give the diagnoses of at least one run.")
    joined = [one for one in verdicts if one.runs > 1]
    if joined and len(verdicts) > 1:
        raise InputError(
            f"A verdict over {joined[0].runs} runs cannot be combined with others. Pass the diagnoses of single runs."
        )
    if len({one.thresholds for one in verdicts}) > 1:
        raise InputError(
            "The verdicts were computed with different thresholds. Diagnose the runs again with the same thresholds."
        )
    cells = sorted({one.drawn_from or one.unseen_cells for one in verdicts if one.unseen_cells})
    spaces = {(one.space, one.held_out.tobytes()) for one in given if not isinstance(one, Verdict)}  # type: ignore[attr-defined]
    if len(cells) > 1 or len(spaces) > 1:
        counts = " and ".join(map(str, cells))
        raise InputError(
            f"The runs differ in their factors or their hold-out ({counts} unseen combinations). Combine only runs "
            "that differ in their seed."
        )


def _kind(verdicts: Sequence[Verdict], kinds: Mapping[VerdictKind, int]) -> tuple[VerdictKind, Undecided | None]:
    kind, count = next(iter(kinds.items()))
    if 2 * count > len(verdicts):
        return kind, next((one.reason for one in verdicts if one.kind is kind), None)
    if set(kinds) <= SOME:
        return VerdictKind.PARTLY, None
    return VerdictKind.UNDECIDED, Undecided.RUNS_DISAGREE


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def _mostly(values: Sequence[bool]) -> bool:
    return 2 * sum(values) > len(values)


def _mean_shares(sides: Sequence[Mapping[CellClass, float]]) -> dict[CellClass, float]:
    """Means over the runs whose cells were classified."""
    known = [side for side in sides if side]
    return {
        one: float(np.mean([side.get(one, 0.0) for side in known]))
        for one in CellClass
        if any(one in side for side in known)
    }


def _factors(verdicts: Sequence[Verdict]) -> tuple[FactorValues, ...]:
    """Means per factor over the runs that have them; a factor fails if it does in more than half of these."""
    rows = [one.factors for one in verdicts if one.factors]
    return tuple(
        FactorValues(
            same[0].factor,
            _mean([row.unseen for row in same]),
            _mean([row.trained for row in same]),
            _mostly([row.fails for row in same]),
            _mean([row.chance for row in same]),
        )
        for same in zip(*rows, strict=True)
    )


def _told(verdict: Verdict, of: str) -> str:
    """The number of runs, in total and for each verdict."""
    counts = ", ".join(f"{count} {kind}" for kind, count in verdict.kinds.items())
    interval = "" if math.isnan(verdict.interval[0]) else f"; the interval is over {of}"
    return f"Shares are means over {verdict.runs} {of} ({counts}){interval}."
