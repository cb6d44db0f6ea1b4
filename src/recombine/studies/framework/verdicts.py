"""Verdicts on claims from one number per seed, in two editions.

Second edition (`decide`): each part is tested in both directions, one-sided at α = 0.025 after Holm's correction over
the parts of its claim (the deciding parts and the additional ones separately). A part is *reproduced* if the number is
significantly on the claimed side, *not reproduced* if it is significantly on the other side, and *inconclusive*
otherwise. First edition (`decide_by_intervals`): the 95 % Student interval of the mean must lie entirely on one side of
the threshold.

In both editions, a claim is reproduced if all deciding parts are, and not reproduced if any of them is not. A part is
inconclusive if a seed is missing, or if more than a quarter of the seeds were left out because they never learnt. A
claim is inconclusive if a run or its study failed. Seeds determine initial weights, drawn examples and their order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from recombine.studies.framework.claims import Claim, ClaimPart, Test
from recombine.studies.framework.growth import GrowthFit
from recombine.studies.framework.inference import (
    ALPHA,
    Tested,
    holm,
    mean_interval,
    mean_test,
    seeds_needed,
    seeds_needed_by_sign_test,
    sign_test,
)

MOST_LEFT_OUT = 0.25  # maximum share of seeds that failed to learn
NORMAL = 1.959964  # 97.5 % quantile of the normal distribution


class Outcome(StrEnum):
    """The verdict on a claim or on a part of it."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Evidence:
    """The evidence for a part of a claim.

    Attributes:
        values: Maps seeds to numbers.
        left_out: Maps seeds that do not count to the reason, for example that a network never learnt.
        fit: A model fitted to all seeds jointly, instead of the numbers.
    """

    values: Mapping[int, float] = field(default_factory=dict)
    left_out: Mapping[int, str] = field(default_factory=dict)
    fit: GrowthFit | None = None


Effects = Mapping[str, Evidence]  # "C7.variance_much" → evidence


@dataclass(frozen=True)
class PartVerdict:
    """A part of a claim with its verdict.

    Attributes:
        part: The part.
        outcome: The verdict.
        effects: Maps seeds to numbers.
        estimate: Mean, median or fitted number; NaN without any.
        low, high: Its 95 % interval; NaN with fewer than two seeds.
        p_for, p_against: Corrected p-values for lying on the claimed side and on the other side; NaN in the first
            edition.
        left_out: Maps seeds that do not count to the reason.
        reason: Why the part is undecided; empty if it is decided, or if the number is too close to the threshold.
        seeds_to_decide: The number of seeds with which an inconclusive part would be decided (`_seeds_to_decide`).
    """

    part: ClaimPart
    outcome: Outcome
    effects: dict[int, float]
    estimate: float
    low: float
    high: float
    p_for: float = math.nan
    p_against: float = math.nan
    left_out: Mapping[int, str] = field(default_factory=dict)
    reason: str = ""
    seeds_to_decide: int | None = None

    @property
    def margin(self) -> float:
        """Distance of the estimate beyond the threshold, in half-widths of the interval; −∞ if it is unknown."""
        if self.reason or not math.isfinite(self.estimate) or math.isnan(self.low):
            return -math.inf
        threshold = self.part.threshold
        if isinstance(threshold, tuple):
            beyond = min(self.estimate - threshold[0], threshold[1] - self.estimate)
        else:
            beyond = (self.estimate - threshold) * (1 if self.part.direction == "above" else -1)
        half = (self.high - self.low) / 2
        return beyond / half if half else math.copysign(math.inf, beyond) if beyond else 0.0

    def to_json(self) -> dict[str, Any]:
        threshold = self.part.threshold
        return {
            "part": self.part.name,
            "verdict": str(self.outcome),
            "decides": self.part.decides,
            "definition": self.part.statistic,
            "test": str(self.part.test),
            "statistic": _number(self.estimate),
            "interval": None if math.isnan(self.low) else [_number(self.low), _number(self.high)],
            "p_for": _number(self.p_for),
            "p_against": _number(self.p_against),
            "n_seeds": len(self.effects),
            "direction": self.part.direction,
            "threshold": list(threshold) if isinstance(threshold, tuple) else threshold,
            "effects": {str(seed): _number(effect) for seed, effect in sorted(self.effects.items())},
            "left_out": {str(seed): why for seed, why in sorted(self.left_out.items())},
            "reason": self.reason,
            "seeds_to_decide": self.seeds_to_decide,
        }


@dataclass(frozen=True)
class Verdict:
    """A claim with its verdict.

    Attributes:
        claim: The claim.
        parts: Its parts.
        failure: The runs or the study that failed; empty if none did.
    """

    claim: Claim
    parts: tuple[PartVerdict, ...]
    failure: str = ""

    @property
    def outcome(self) -> Outcome:
        """The verdict on the claim, from the verdicts on its deciding parts."""
        if self.failure:
            return Outcome.INCONCLUSIVE
        outcomes = [part.outcome for part in self.parts if part.part.decides]
        for outcome in (Outcome.NOT_REPRODUCED, Outcome.INCONCLUSIVE):
            if outcome in outcomes:
                return outcome
        return Outcome.REPRODUCED

    @property
    def deciding(self) -> PartVerdict:
        """The weakest part: the one with the smallest margin among the deciding ones that have the claim's verdict."""
        deciding = [part for part in self.parts if part.part.decides]
        agreeing = [part for part in deciding if part.outcome == self.outcome]
        return min(agreeing or deciding, key=lambda part: part.margin)

    @property
    def seeds_to_decide(self) -> int | None:
        """The number of seeds that would decide an inconclusive claim, if the numbers stay as they are.

        One part on the other side of its threshold suffices for *not reproduced*; *reproduced* needs all parts.
        """
        if self.outcome != Outcome.INCONCLUSIVE or self.failure:
            return None
        open_parts = [p for p in self.parts if p.part.decides and p.outcome == Outcome.INCONCLUSIVE]
        against = [p.seeds_to_decide for p in open_parts if p.margin < 0 and p.seeds_to_decide is not None]
        if against:
            return min(against)
        needed = [p.seeds_to_decide for p in open_parts]
        return None if None in needed else max(n for n in needed if n is not None)

    def to_json(self) -> dict[str, Any]:
        """As in claims.json. The numbers at the top level are those of the deciding part."""
        decided = self.deciding.to_json()
        top = {key: decided[key] for key in ("statistic", "interval", "n_seeds", "threshold", "direction", "reason")}
        if self.failure:
            top["reason"] = self.failure
        return {
            "claim": self.claim.id,
            "verdict": str(self.outcome),
            **top,
            "seeds_to_decide": self.seeds_to_decide,
            "text": self.claim.text,
            "decided_by": decided["part"],
            "parts": [part.to_json() for part in self.parts],
        }


def decide(claim: Claim, effects: Effects, seeds: Sequence[int], reason: str = "", failure: str = "") -> Verdict:
    """Second edition: test every part, correct for their number, and decide.

    Args:
        claim: The claim.
        effects: Evidence by part, such as "C7.variance_much".
        seeds: All expected seeds.
        reason: Why numbers may be missing although nothing failed; reported with the verdict.
        failure: The runs or the study that failed, which makes the claim inconclusive.
    """
    why = "; ".join(text for text in (failure, reason) if text)
    found = [_tested(part, effects.get(f"{claim.id}.{part.name}", Evidence()), seeds, why) for part in claim.parts]
    corrected: list[PartVerdict] = list(found)
    for decides in (True, False):
        family = [i for i, part in enumerate(claim.parts) if part.decides == decides]
        sides = [holm([getattr(found[i], side) for i in family]) for side in ("p_for", "p_against")]
        for i, p_for, p_against in zip(family, *sides):
            outcome = Outcome.INCONCLUSIVE
            if not found[i].reason:
                outcome = Outcome.NOT_REPRODUCED if p_against <= ALPHA else outcome
                outcome = Outcome.REPRODUCED if p_for <= ALPHA else outcome
            needed = _seeds_to_decide(found[i], ALPHA / len(family)) if outcome == Outcome.INCONCLUSIVE else None
            corrected[i] = replace(found[i], outcome=outcome, p_for=p_for, p_against=p_against, seeds_to_decide=needed)
    return Verdict(claim, tuple(corrected), failure)


def _tested(part: ClaimPart, evidence: Evidence, seeds: Sequence[int], why: str) -> PartVerdict:
    """The part with its p-values before correction; 1 if it cannot be tested."""
    known, reason = _known(evidence, seeds, why)
    left_out = {seed: told for seed, told in evidence.left_out.items() if seed in seeds}
    estimate, low, high, p_for, p_against = _test(part, evidence.fit, list(known.values()))
    if reason:
        p_for = p_against = 1.0
    return PartVerdict(part, Outcome.INCONCLUSIVE, known, estimate, low, high, p_for, p_against, left_out, reason)


def _test(part: ClaimPart, fit: GrowthFit | None, values: list[float]) -> tuple[float, float, float, float, float]:
    """Estimate, interval, p-values for and against."""
    bounds = part.threshold if isinstance(part.threshold, tuple) else (part.threshold, part.threshold)
    if part.test == Test.FIT:
        if fit is None:
            return math.nan, math.nan, math.nan, 1.0, 1.0
        tested = [Tested(fit.exponent, *fit.interval(), fit.p_above(bound), fit.p_below(bound)) for bound in bounds]
    else:
        test = sign_test if part.test == Test.MEDIAN else mean_test
        tested = [test(values, bound) for bound in bounds]
    lower, upper = tested
    if part.direction == "within":
        p_for, p_against = max(lower.p_above, upper.p_below), min(1.0, 2 * min(lower.p_below, upper.p_above))
    elif part.direction == "above":
        p_for, p_against = lower.p_above, lower.p_below
    else:
        p_for, p_against = lower.p_below, lower.p_above
    return lower.estimate, lower.low, lower.high, p_for, p_against


def _seeds_to_decide(part: PartVerdict, alpha: float) -> int | None:
    """The number of seeds that decides a part with a power of 0.8, if estimate and spread are those found so far.

    The level is that of Bonferroni, the strictest that Holm's correction applies. The interval of a fit is assumed to
    shrink with the square root of the number of seeds. None if it is unknown or above `MOST_SEEDS`.
    """
    values = [*part.effects.values()]
    if part.reason or not values or not math.isfinite(part.estimate):
        return None
    bounds = part.part.threshold if isinstance(part.part.threshold, tuple) else (part.part.threshold,)
    nearest = min(bounds, key=lambda bound: abs(part.estimate - bound))
    if part.part.test == Test.MEDIAN:
        above, below = (sum(sign * v > sign * nearest for v in values) for sign in (1, -1))
        share = max(above, below) / (above + below) if above + below else 0.5
        return seeds_needed_by_sign_test(share, alpha)
    sd = float(np.std(values, ddof=1))
    if part.part.test == Test.FIT:
        sd = (part.high - part.low) / (2 * NORMAL) * math.sqrt(len(values))
    return seeds_needed(abs(part.estimate - nearest), sd, alpha)


def decide_by_intervals(
    claim: Claim, effects: Effects, seeds: Sequence[int], reason: str = "", failure: str = ""
) -> Verdict:
    """First edition: compare the 95 % Student interval of every part with its threshold. Arguments as in `decide`."""
    why = "; ".join(text for text in (failure, reason) if text)
    parts = []
    for part in claim.parts:
        known, told = _known(effects.get(f"{claim.id}.{part.name}", Evidence()), seeds, why)
        mean, low, high = mean_interval(list(known.values()))
        outcome = Outcome.INCONCLUSIVE if told else _side(part, low, high)
        parts.append(PartVerdict(part, outcome, known, mean, low, high, reason=told))
    return Verdict(claim, tuple(parts), failure)


def _side(part: ClaimPart, low: float, high: float) -> Outcome:
    """The side of the threshold on which the whole interval lies."""
    if isinstance(part.threshold, tuple):
        least, most = part.threshold
        inside, outside = least < low and high < most, high < least or low > most
    else:
        above, below = low > part.threshold, high < part.threshold
        inside, outside = (above, below) if part.direction == "above" else (below, above)
    return Outcome.REPRODUCED if inside else Outcome.NOT_REPRODUCED if outside else Outcome.INCONCLUSIVE


def _known(evidence: Evidence, seeds: Sequence[int], why: str) -> tuple[dict[int, float], str]:
    """The numbers of the expected seeds, and why they do not suffice; empty if they do."""
    known = {seed: float(v) for seed, v in evidence.values.items() if seed in seeds and math.isfinite(v)}
    left_out = [seed for seed in seeds if seed in evidence.left_out and seed not in known]
    lacking = [seed for seed in seeds if seed not in known and seed not in left_out]
    if lacking:
        told = f"no number for {'seed' if len(lacking) == 1 else 'seeds'} {', '.join(map(str, lacking))}"
        return known, f"{told}{': ' if why else ''}{why}"
    if len(left_out) > MOST_LEFT_OUT * len(seeds):
        return known, f"{len(left_out)} of {len(seeds)} seeds do not count: {evidence.left_out[left_out[0]]}"
    if len(known) < 2:
        return known, "an interval needs at least two seeds"
    return known, ""


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
