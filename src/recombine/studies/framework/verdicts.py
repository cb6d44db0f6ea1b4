"""Verdicts on claims from effect sizes over seeds.

A part of a claim is *reproduced* if the whole 95 % interval of its mean effect lies beyond the threshold, *not
reproduced* if it lies wholly on the other side, *inconclusive* otherwise: also if a seed is missing or there is only
one. A claim is inconclusive if a run or its study failed, whatever the other runs say. The interval is Student's t over
seeds, mean ± t(0.975, n − 1) · s / √n: with three seeds it is wide, as it should be. Seeds share their hold-out and
differ in initial weights, drawn examples and order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from recombine.studies.framework.claims import Claim, ClaimPart
from recombine.studies.framework.study import Effects

Outcome = Literal["reproduced", "not reproduced", "inconclusive"]
LEVEL = 0.95


@dataclass(frozen=True)
class PartVerdict:
    """A part of a claim and what became of it.

    Attributes:
        part: What was asked.
        outcome: The verdict.
        effects: Seed → effect size.
        mean: Over seeds; NaN without any.
        low, high: 95 % interval of the mean; NaN with fewer than two seeds.
        reason: Why it could not be told; empty if it could, or if the interval holds the threshold.
    """

    part: ClaimPart
    outcome: Outcome
    effects: dict[int, float]
    mean: float
    low: float
    high: float
    reason: str = ""

    @property
    def margin(self) -> float:
        """How far the mean lies beyond the threshold, in half widths of the interval: > 1 if reproduced, < −1 if not.

        −∞ without a number for every seed.
        """
        if self.reason or not math.isfinite(self.low):
            return -math.inf
        threshold = self.part.threshold
        if isinstance(threshold, tuple):
            beyond = min(self.mean - threshold[0], threshold[1] - self.mean)
        else:
            beyond = (self.mean - threshold) * (1 if self.part.direction == "above" else -1)
        half = (self.high - self.low) / 2
        return beyond / half if half else math.copysign(math.inf, beyond) if beyond else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "part": self.part.name,
            "verdict": self.outcome,
            "definition": self.part.statistic,
            "statistic": _number(self.mean),
            "interval": _interval(self.low, self.high),
            "n_seeds": len(self.effects),
            "direction": self.part.direction,
            "threshold": _threshold(self.part),
            "effects": {str(seed): _number(effect) for seed, effect in sorted(self.effects.items())},
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Verdict:
    """A claim and what became of it.

    Attributes:
        claim: What was claimed.
        parts: Its parts.
        failure: The runs or the study that failed; empty if none did.
    """

    claim: Claim
    parts: tuple[PartVerdict, ...]
    failure: str = ""

    @property
    def outcome(self) -> Outcome:
        if self.failure:
            return "inconclusive"
        outcomes = [part.outcome for part in self.parts]
        if "not reproduced" in outcomes:
            return "not reproduced"
        return "inconclusive" if "inconclusive" in outcomes else "reproduced"

    @property
    def deciding(self) -> PartVerdict:
        """The weakest part: that of the least margin among those that have the claim's verdict."""
        agreeing = [part for part in self.parts if part.outcome == self.outcome]
        return min(agreeing or self.parts, key=lambda part: part.margin)

    def to_json(self) -> dict[str, Any]:
        """As in claims.json: the numbers at the top are those of the part that decides."""
        decided = self.deciding.to_json()
        top = {key: decided[key] for key in ("statistic", "interval", "n_seeds", "threshold", "direction", "reason")}
        if self.failure:
            top["reason"] = self.failure
        return {
            "claim": self.claim.id,
            "verdict": self.outcome,
            **top,
            "text": self.claim.text,
            "decided_by": decided["part"],
            "parts": [part.to_json() for part in self.parts],
        }


def judge(claim: Claim, effects: Effects, seeds: Sequence[int], reason: str = "", failure: str = "") -> Verdict:
    """Hold a claim's effect sizes against its thresholds.

    Args:
        claim: Which one.
        effects: "C7.variance_much" → seed → effect size.
        seeds: All seeds that should be there.
        reason: Why effects may be missing though nothing failed, to be told with the verdict.
        failure: The runs or the study that failed; the claim is inconclusive then.
    """
    why = "; ".join(text for text in (failure, reason) if text)
    parts = [judge_part(part, effects.get(f"{claim.id}.{part.name}", {}), seeds, why) for part in claim.parts]
    return Verdict(claim, tuple(parts), failure)


def judge_part(part: ClaimPart, effects: Mapping[int, float], seeds: Sequence[int], reason: str = "") -> PartVerdict:
    """One part; see the module."""
    known = {seed: float(effect) for seed, effect in effects.items() if seed in seeds and math.isfinite(effect)}
    mean, low, high = interval(list(known.values()))
    lacking = [seed for seed in seeds if seed not in known]
    if lacking:
        why = f"no number for {'seed' if len(lacking) == 1 else 'seeds'} {', '.join(map(str, lacking))}"
        return PartVerdict(part, "inconclusive", known, mean, low, high, f"{why}{': ' if reason else ''}{reason}")
    if len(known) < 2:
        return PartVerdict(part, "inconclusive", known, mean, low, high, "an interval needs at least two seeds")
    return PartVerdict(part, _outcome(part, low, high), known, mean, low, high)


def _outcome(part: ClaimPart, low: float, high: float) -> Outcome:
    """Which side of the threshold the whole interval lies on."""
    if isinstance(part.threshold, tuple):
        least, most = part.threshold
        inside, outside = least < low and high < most, high < least or low > most
    else:
        above, below = low > part.threshold, high < part.threshold
        inside, outside = (above, below) if part.direction == "above" else (below, above)
    return "reproduced" if inside else "not reproduced" if outside else "inconclusive"


def interval(effects: Sequence[float], level: float = LEVEL) -> tuple[float, float, float]:
    """Mean and Student's t interval of the mean; NaN where there are too few numbers."""
    import numpy as np
    from scipy.stats import t

    if not effects:
        return math.nan, math.nan, math.nan
    mean = float(np.mean(effects))
    if len(effects) < 2:
        return mean, math.nan, math.nan
    half = float(t.ppf((1 + level) / 2, len(effects) - 1) * np.std(effects, ddof=1) / math.sqrt(len(effects)))
    return mean, mean - half, mean + half


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _interval(low: float, high: float) -> list[float] | None:
    return [low, high] if math.isfinite(low) else None


def _threshold(part: ClaimPart) -> float | list[float]:
    return list(part.threshold) if isinstance(part.threshold, tuple) else part.threshold
