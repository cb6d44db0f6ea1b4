"""The verdict: what a decoder does with combinations it was never trained on.

    composes          it makes the right output
    superposes        it answers with a sum of remembered outputs that share a factor value
    fails otherwise   it is wrong in another way, or never learnt the trained combinations
    cannot tell       the numbers do not decide, or what they need is missing

Each number is a median over OOD (or ID) cells, or a mean squared error relative to the truth's own variance. Outputs,
superpositions and truth are compared after the mean ID output was taken from all of them: with a bright background,
or in an untrained network whose outputs hardly vary, everything resembles everything otherwise.

The thresholds are those of plain words, the same for all models: *right* leaves a tenth of the variance unexplained,
*wrong* and *mostly* begin at a half, and *clearly more* is a quarter more.

    LEARNT = 0.5      ID error, relative, at most: half of what distinguishes the trained outputs is there. With less,
                      there is nothing learnt that could be recombined.
    RIGHT = 0.1       OOD error, relative, at most, and 1 − the squared cosine with the truth at most: nine tenths of
                      what distinguishes the outputs is right. Answering the mean ID output always scores 1.
    WRONG = 0.5       OOD error, relative, at least, to count as a failure. What lies between is neither.
    MOSTLY = 0.5      Share of the energy of an OOD output that the best sum of remembered outputs explains, at least
                      (outputs for trained cells that differ in one factor, weights ≥ 0): more than
                      all else together. An output of which the truth explains that much, up to scale, is no failure
                      either, however large its error: it is of the right form and of the wrong strength.
    CLEARLY = 0.25    How much more that share must be than the one as many unrelated outputs explain, and than the one
                      a right output would score (with truth) or trained outputs score with a hole as large around them
                      (without): sums of single-factor functions and smooth scenes resemble the sum of their relatives
                      without any memory. A share cannot exceed 1, so where the other one is high this is measured on
                      what stays unexplained:
    REMAINS = 0.25    How much less stays unexplained, as a part of what right (or unrelated) outputs leave, to be
                      clearly more all the same. It counts for outputs that are wrong (see WRONG) only: a blurred right
                      output is closer to a sum of its relatives than a sharp one.
    BEYOND = 0.99     Above this share there is nothing left to be less than.
    CHANCE = 0.05     p-value, at most, of the agreement with the binary factorized kernel (without truth).
    FEWEST = 5        OOD cells, at least.

Without truth an output can be known to be a superposition, but not to be right: the verdict is *superposes* or
*cannot tell*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from recombine.diagnostics.findings import PartResult

if TYPE_CHECKING:
    from recombine.diagnostics.inputs import DiagnosisInputs

Kind = Literal["composes", "superposes", "fails otherwise", "cannot tell"]
LEARNT, RIGHT, WRONG = 0.5, 0.1, 0.5
MOSTLY, CLEARLY, REMAINS, BEYOND, CHANCE, FEWEST = 0.5, 0.25, 0.25, 0.99, 0.05, 5
THRESHOLDS = {
    "learnt": LEARNT,
    "right": RIGHT,
    "wrong": WRONG,
    "mostly": MOSTLY,
    "clearly": CLEARLY,
    "remains": REMAINS,
    "beyond": BEYOND,
    "chance": CHANCE,
    "fewest": FEWEST,
}


@dataclass(frozen=True)
class Evidence:
    """The numbers a verdict rests on; NaN where there is none.

    Attributes:
        ood_cells: Number of OOD cells compared.
        superposition: Median share of the energy of OOD outputs that the best sum of remembered outputs explains, in
            [0, 1]; see `recombine.diagnostics.numerics.nonnegative_superposition`.
        unrelated: The same with as many trained outputs that share no factor value.
        trained: The same of ID outputs with a hole as large around them.
        blank: Share of OOD outputs that hold nothing beside the mean ID output; they are no sum and have no share.
        id_error, ood_error: Mean squared error over the mean square of the truth around its ID mean; 0 is right, 1 is
            as good as always answering the mean.
        cosine_truth: Median cosine of OOD outputs with the truth.
        truth_superposition: What right outputs would score as `superposition`.
        agreement, agreement_p: Correlation of OOD × ID similarity with the binary factorized kernel, and its p-value.
    """

    ood_cells: int = 0
    superposition: float = math.nan
    unrelated: float = math.nan
    trained: float = math.nan
    id_error: float = math.nan
    ood_error: float = math.nan
    cosine_truth: float = math.nan
    truth_superposition: float = math.nan
    agreement: float = math.nan
    agreement_p: float = math.nan
    blank: float = math.nan

    @property
    def has_truth(self) -> bool:
        return not math.isnan(self.ood_error)

    @property
    def without_memory(self) -> dict[str, float]:
        """What the share is held against: the shares that outputs score without remembering anything."""
        shares = {"sums of unrelated outputs explain them": self.unrelated}
        if self.has_truth:
            shares["right outputs would be such sums"] = self.truth_superposition
        else:
            shares["trained outputs are such sums"] = self.trained
        return {what: share for what, share in shares.items() if not math.isnan(share)}

    @property
    def remembers(self) -> bool:
        """Whether OOD outputs are mostly sums of remembered ones, and clearly more so than without memory."""
        return self.superposition >= MOSTLY and all(map(self._clearly_exceeds, self.without_memory.values()))

    def _clearly_exceeds(self, share: float) -> bool:
        if self.superposition >= share + CLEARLY:
            return True
        return self.ood_error >= WRONG and share <= BEYOND and 1 - self.superposition <= REMAINS * (1 - share)

    @property
    def undecided(self) -> list[str]:
        """What explains the share as well, where it is so high that the share could not have exceeded it clearly."""
        return [
            what
            for what, share in self.without_memory.items()
            if share > 1 - CLEARLY and self.superposition >= share and not self._clearly_exceeds(share)
        ]


@dataclass(frozen=True)
class Verdict:
    """What the model does with unseen combinations.

    Attributes:
        kind: One of the four.
        explanation: Why, in plain words with the numbers.
        evidence: The numbers.
        thresholds: What they were held against; see the module docstring.
    """

    kind: Kind
    explanation: str
    evidence: Evidence = field(default_factory=Evidence)
    thresholds: Mapping[str, float] = field(default_factory=lambda: dict(THRESHOLDS))

    def __str__(self) -> str:
        return f"{self.kind}: {self.explanation}"

    def to_json(self) -> dict[str, Any]:
        numbers = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(self.evidence).items()}
        return {"kind": self.kind, "explanation": self.explanation, "evidence": numbers,
                "thresholds": dict(self.thresholds)}  # fmt: skip

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Verdict:
        numbers: dict[str, Any] = {k: math.nan if v is None else v for k, v in given["evidence"].items()}
        return cls(given["kind"], given["explanation"], Evidence(**numbers), dict(given["thresholds"]))


def judge(evidence: Evidence) -> Verdict:
    """The verdict that follows from the numbers."""
    if evidence.ood_cells < FEWEST:
        return Verdict(
            "cannot tell", f"there are {evidence.ood_cells} OOD cells to compare, fewer than {FEWEST}.", evidence
        )
    if evidence.has_truth:
        kind, why = _with_truth(evidence)
    elif math.isnan(evidence.superposition):
        kind, why = "cannot tell", f"whether unseen outputs are right needs the truth. {_nothing_to_compare(evidence)}"
    else:
        kind, why = _without_truth(evidence)
    return Verdict(kind, why, evidence)


def _nothing_to_compare(e: Evidence) -> str:
    """Why there is no share."""
    if e.blank >= MOSTLY:
        return (
            f"{e.blank:.0%} of the unseen outputs are blank or a mere multiple of the mean trained output, so there is "
            "nothing to compare with remembered ones."
        )
    return (
        "Most unseen combinations differ from every trained one in more than one factor, so there is nothing "
        "remembered to compare with."
    )


def _sums(e: Evidence) -> str:
    """What is known of sums with the truth given."""
    if math.isnan(e.superposition):
        return _nothing_to_compare(e)
    beside = {"they would explain {} of right ones": e.truth_superposition,
              "sums of unrelated outputs explain {}": e.unrelated}  # fmt: skip
    known = [what.format(f"{share:.0%}") for what, share in beside.items() if not math.isnan(share)]
    return f"Sums of remembered outputs explain {e.superposition:.0%} of the unseen outputs" + (
        f" ({'; '.join(known)})." if known else "."
    )


def _with_truth(e: Evidence) -> tuple[Kind, str]:
    right = e.ood_error <= RIGHT and not (e.cosine_truth < 0 or e.cosine_truth**2 < 1 - RIGHT)
    trained = "not known on trained ones" if math.isnan(e.id_error) else f"{e.id_error:.2g} on trained ones"
    alike = "" if math.isnan(e.cosine_truth) else f", and their cosine with the truth is {e.cosine_truth:.2f}"
    errors = f"The error on unseen combinations is {e.ood_error:.2g} of the truth's variance ({trained}){alike}."
    sums = _sums(e)
    if not e.id_error <= LEARNT:
        unknown = math.isnan(e.id_error)
        if right:
            what = "of trained ones that cannot be said" if unknown else "trained ones are not"
            return "cannot tell", f"unseen combinations are right, {what}. {errors}"
        if unknown:
            return "cannot tell", f"whether the trained combinations are learnt cannot be said. {errors} {sums}"
        return "fails otherwise", f"the trained combinations themselves are not learnt. {errors} {sums}"
    if right:
        return "composes", f"unseen combinations come out right. {errors} {sums}"
    if e.remembers and e.ood_error > RIGHT:
        return "superposes", f"unseen combinations are answered by sums of remembered outputs. {sums} {errors}"
    if e.ood_error < WRONG:
        return "cannot tell", f"unseen combinations are partly right. {errors} {sums}"
    if e.cosine_truth > 0 and e.cosine_truth**2 >= MOSTLY:
        return "cannot tell", f"unseen combinations have mostly the right form in the wrong strength. {errors} {sums}"
    if e.superposition >= MOSTLY and e.undecided:
        return "cannot tell", (
            f"unseen combinations are wrong, and sums of remembered ones; but {' and '.join(e.undecided)} nearly as "
            f"well. {errors} {sums}"
        )
    how = ""
    if e.superposition >= MOSTLY:
        how = ", and not clearly more sums of remembered ones than right or unrelated outputs are"
    elif not math.isnan(e.superposition):
        how = ", and not mostly sums of remembered ones"
    return "fails otherwise", f"unseen combinations are wrong{how}. {errors} {sums}"


def _without_truth(e: Evidence) -> tuple[Kind, str]:
    trained, unrelated = ("an unknown share" if math.isnan(s) else f"{s:.0%}" for s in (e.trained, e.unrelated))
    sums = (
        f"Sums of remembered outputs explain {e.superposition:.0%} of the unseen outputs, and {trained} of "
        f"trained ones with a hole as large around them; sums of unrelated outputs explain {unrelated}."
    )
    alike = "" if math.isnan(e.agreement) else (
        f" Similarity to trained outputs follows shared factor values with correlation {e.agreement:.2f} "
        f"(p = {e.agreement_p:.2g})."
    )  # fmt: skip
    if e.remembers and not e.agreement_p > CHANCE:
        return "superposes", f"unseen combinations are answered by sums of remembered outputs. {sums}{alike}"
    if e.superposition >= MOSTLY:
        return "cannot tell", (
            "unseen outputs resemble sums of remembered ones, but so do others: without the truth that may be right. "
            f"{sums}{alike}"
        )
    return "cannot tell", (
        f"unseen outputs are no sums of remembered ones; whether they are right needs the truth. {sums}{alike}"
    )


def verdict_of(parts: Mapping[str, PartResult], inputs: DiagnosisInputs) -> Verdict:
    """Gather the evidence from the parts and judge it; the errors count also where they were not asked for."""
    superposition = parts["superposition"]
    if not superposition.computed:
        return Verdict("cannot tell", f"the superposition test is missing: {superposition.reason}")
    [row] = [r for r in superposition.table("summary") if r["side"] == "output" and r["centred"]]
    [sums] = superposition.table("remembered")
    numbers: dict[str, Any] = {
        "ood_cells": row["n_cells"],
        "cosine_truth": row["cosine_truth"],
        "superposition": sums["share"],
        "unrelated": sums["unrelated"],
        "trained": sums["trained"],
        "truth_superposition": sums["truth"],
        "blank": sums["blank"],
    }
    if inputs.truth is not None:
        from recombine.diagnostics.part import PARTS

        errors = parts["errors"] if parts["errors"].computed else PARTS["errors"].compute(inputs)
        relative = {r["cells"]: r["relative"] for r in errors.rows}
        numbers |= {"id_error": relative["id"], "ood_error": relative["ood"]}
    if parts["kernels"].computed:
        for agreeing in parts["kernels"].table("agreement"):
            if agreeing["similarity"] == "cosine":
                numbers |= {"agreement": agreeing["correlation"], "agreement_p": agreeing["p_value"]}
    return judge(Evidence(**numbers))
