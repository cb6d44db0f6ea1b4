"""Published claims about remedies, tested on the rows of a comparison.

A claim is about the share of correct unseen cells of one remedy, or about the difference to its control. Its number is
the mean over scenes and splits. Each scene and split has its own spread over seeds, and the interval combines them by
Welch and Satterthwaite. A claim *holds* if its number is significantly on the claimed side of its threshold, *fails* if
it is significantly on the other side, and is *open* otherwise; p-values are corrected by Holm's method over all claims.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from recombine.studies.compare.results import Status
from recombine.studies.framework.inference import ALPHA, Tested, holm

COMPOSES = 0.95  # mean share of correct unseen cells of a remedy that composes
FAILS = 0.05  # the same of a remedy that does not compose at all
NO_GAIN = 0.05  # largest difference to the control that counts as no improvement


class Outcome(StrEnum):
    """Whether a claim holds."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"


@dataclass(frozen=True)
class Claim:
    """A published claim about a remedy.

    Attributes:
        name, text, source: What is claimed, and where.
        remedy: The remedy.
        threshold: Bound of the number.
        control: The remedy whose share is subtracted; None if the share itself is tested.
        below: Whether the number must lie below the threshold instead of above it.
        scenes, splits: Where it applies; empty for all.
    """

    name: str
    text: str
    source: str
    remedy: str
    threshold: float = COMPOSES
    control: str | None = None
    below: bool = False
    scenes: Sequence[str] = ()
    splits: Sequence[str] = ()

    def applies(self, scene: str, split: str) -> bool:
        """Whether the claim is about a scene and a split."""
        return (not self.scenes or scene in self.scenes) and (not self.splits or split in self.splits)


OBJECTS = ("balls", "sprites")
COVERED = ("random", "comb")
CLAIMS = (
    Claim("additive_on_sums", "Additive decoders compose what is a sum of its objects", "Lachapelle et al. 2023",
          "additive", scenes=("balls",)),
    Claim("additive_on_products", "Additive decoders cannot compose a product of factors", "closed form", "additive",
          FAILS, below=True, scenes=("bump",)),
    Claim("masked_slots_on_objects", "Masked slots compose objects", "Brady et al. 2023", "masked_slots",
          scenes=OBJECTS),
    Claim("occlusion_sum_on_objects", "A known composition function composes objects", "Wiedemer et al. 2023",
          "occlusion_sum", scenes=OBJECTS),
    Claim("coordconv_on_positions", "CoordConv generalizes to unseen positions, in uniform and quadrant splits",
          "Liu et al. 2018", "coordconv", scenes=("bump",)),
    Claim("broadcast_helps", "Spatial broadcast decoders generalize better than CNNs", "Watters et al. 2019",
          "spatial_broadcast", 0.0, "cnn"),
    Claim("attention_on_objects", "Cross-attention with the interaction penalty composes objects", "Brady et al. 2024",
          "interaction", scenes=OBJECTS),
    Claim("interaction_helps", "The interaction penalty improves cross-attention", "Brady et al. 2024", "interaction",
          0.0, "cross_attention"),
    Claim("stripes_help", "Single-factor examples help a CNN", "Liang et al. 2025", "cnn_stripes", 0.0, "cnn_longer"),
    Claim("rendered_on_bumps", "Forced rendering composes bumps", "Liang et al. 2025", "rendered", scenes=("bump",)),
    Claim("cp_on_bumps", "A product of maps composes bumps on covered splits", "closed form", "cp_shared",
          scenes=("bump",), splits=COVERED),
    Claim("wider_suffices", "Wider networks compose if all values are covered", "Redhardt et al. 2025", "cnn_wider",
          splits=COVERED),
    Claim("wider_helps", "Wider networks compose better", "Redhardt et al. 2025", "cnn_wider", 0.0, "cnn"),
    Claim("more_helps", "More combinations per value help", "Uselis et al. 2025", "cnn_more", 0.0, "cnn"),
    Claim("contrast_on_bumps", "Compositional contrast does not help on a product", "negative control", "cnn_contrast",
          NO_GAIN, "cnn", below=True, scenes=("bump",)),
    Claim("hessian_on_bumps", "The Hessian penalty does not help on a product", "negative control", "cnn_hessian",
          NO_GAIN, "cnn", below=True, scenes=("bump",)),
    Claim("mixup_hurts", "Mixup trains superposition, so it hurts", "negative control", "cnn_mixup", 0.0,
          "cnn_longer", below=True),
    Claim("composed_on_covered", "The composed decoder composes on every covered split", "recombine", "composed",
          splits=COVERED),
    Claim("composed_on_range", "The composed decoder composes pairs of values that never occur together", "recombine",
          "composed", 0.9, splits=("range",)),
)  # fmt: skip


def outcomes(rows: Sequence[Mapping[str, Any]], claims: Sequence[Claim] = CLAIMS) -> list[dict[str, Any]]:
    """One row per claim whose remedies were compared where it applies, with the number and its outcome."""
    found = [(claim, numbers) for claim in claims if (numbers := _numbers(rows, claim))]
    tested = [stratified_test(list(numbers.values()), claim.threshold) for claim, numbers in found]
    above, below = holm([test.p_above for test in tested]), holm([test.p_below for test in tested])
    return [
        {
            "claim": claim.name, "text": claim.text, "source": claim.source, "remedy": claim.remedy,
            "control": claim.control, "scenes": " ".join(dict.fromkeys(scene for scene, _ in numbers)),
            "splits": " ".join(dict.fromkeys(split for _, split in numbers)),
            "tasks": len(numbers), "seeds": min(map(len, numbers.values())),
            "number": test.estimate, "low": test.low, "high": test.high, "side": "below" if claim.below else "above",
            "threshold": claim.threshold, "outcome": str(_outcome(claim, over, under)),
        }
        for (claim, numbers), test, over, under in zip(found, tested, above, below)
    ]  # fmt: skip


def _outcome(claim: Claim, p_above: float, p_below: float) -> Outcome:
    claimed, other = (p_below, p_above) if claim.below else (p_above, p_below)
    if claimed <= ALPHA:
        return Outcome.HOLDS
    return Outcome.FAILS if other <= ALPHA else Outcome.OPEN


def _numbers(rows: Sequence[Mapping[str, Any]], claim: Claim) -> dict[tuple[str, str], list[float]]:
    """Map each (scene, split) of a claim to its numbers, one per seed."""
    right = {
        (row["remedy"], row["scene"], row["split"], row["seed"]): row["right"]
        for row in rows
        if row["status"] == Status.DONE and row["right"] is not None
    }
    found: dict[tuple[str, str], list[float]] = {}
    for (remedy, scene, split, seed), share in right.items():
        if remedy != claim.remedy or not claim.applies(scene, split):
            continue
        if claim.control is None:
            found.setdefault((scene, split), []).append(share)
        elif (control := right.get((claim.control, scene, split, seed))) is not None:
            found.setdefault((scene, split), []).append(share - control)
    return found


def stratified_test(groups: Sequence[Sequence[float]], threshold: float) -> Tested:
    """t test of the mean of the groups' means, with the degrees of freedom of Welch and Satterthwaite.

    If no group varies, the p-values are 0 or 1. With a single seed per group, nothing is decided.
    """
    from scipy.stats import t

    estimate = float(np.mean([float(np.mean(group)) for group in groups]))
    if min(map(len, groups)) < 2:
        return Tested(estimate, math.nan, math.nan, 1.0, 1.0)
    variances = [float(np.var(group, ddof=1)) / len(group) for group in groups]
    total = sum(variances)
    if total == 0:
        return Tested(estimate, estimate, estimate, float(estimate <= threshold), float(estimate >= threshold))
    error = math.sqrt(total) / len(groups)
    freedom = total**2 / sum(v**2 / (len(group) - 1) for v, group in zip(variances, groups))
    half, statistic = float(t.ppf(1 - ALPHA, freedom)) * error, (estimate - threshold) / error
    return Tested(
        estimate, estimate - half, estimate + half, float(t.sf(statistic, freedom)), float(t.cdf(statistic, freedom))
    )
