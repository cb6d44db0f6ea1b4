"""The verdict as a sentence that can be quoted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from recombine.diagnostics.cells.classes import CellClass
from recombine.diagnostics.verdict.kinds import Undecided, VerdictKind
from recombine.diagnostics.verdict.verdict import Verdict

STRUCTURE = (CellClass.SUM, CellClass.COPY, CellClass.MEAN, CellClass.BLANK)  # that need no truth
FREQUENT = 0.1  # share of unseen cells from which a failure mode is mentioned
PLURALS = {
    CellClass.STRENGTH: "have the right form but the wrong strength",
    CellClass.SUM: "are sums of trained outputs that share a factor value",
    CellClass.COPY: "are copies of single trained outputs",
    CellClass.MEAN: "are the mean of all trained outputs",
    CellClass.BLANK: "are blank",
    CellClass.VALUE: "show the wrong value of one factor",
    CellClass.OTHER: "are wrong in another way",
    CellClass.AMBIGUOUS: "fit two explanations equally well",
}
MEMORIES = (
    VerdictKind.SUPERPOSES,
    VerdictKind.COPIES,
    VerdictKind.COLLAPSES,
)  # which may share values, but not compose
UNEXPLAINED = "are not explained by trained outputs"  # CellClass.OTHER without truth: the output may be right
BY_CHANCE = 0.05  # excess of right values over chance, below which the sentence mentions chance
REST = 0.005  # share from which cells of infrequent classes are mentioned together


def sentence(verdict: Verdict) -> str:
    """One or two sentences: what the model does, how often, and which factors fail."""
    parts = [_SENTENCES[verdict.kind](verdict)]
    if verdict.kind not in (VerdictKind.UNDECIDED, VerdictKind.COMPOSES):
        parts.append(_factors(verdict))
    return " ".join(part for part in parts if part)


def percent(share: float) -> str:
    """A share in percent."""
    return "an unknown share" if math.isnan(share) else f"{100 * share:.0f} %"


def _interval(verdict: Verdict) -> str:
    low, high = verdict.interval
    return "" if math.isnan(low) else f" [{100 * low:.0f}, {100 * high:.0f}]"


def _cells(verdict: Verdict) -> str:
    """The unseen outputs with their number, and the number of combinations that they were sampled from."""
    sampled = f" (sampled from {verdict.drawn_from})" if verdict.drawn_from else ""
    return f"of the {verdict.unseen_cells} unseen outputs{sampled}"


def _right(verdict: Verdict, of: str) -> str:
    """The share of right outputs, with the share among trained combinations for comparison."""
    trained = percent(verdict.trained.get(CellClass.RIGHT, 0.0))
    right = f"{percent(verdict.right)}{_interval(verdict)}"
    return f"{right}{of} are right, compared with {trained} of the trained outputs."


def _composes(verdict: Verdict) -> str:
    how = ""
    if verdict.blurred or verdict.noisy:
        kind = "blurred" if verdict.blurred else "inexact"
        errors = f"{verdict.id_error:.2g} on trained and {verdict.ood_error:.2g} on unseen combinations"
        how = f" All outputs are {kind} (relative error {errors})."
    elif abs(math.log(verdict.strength)) > math.log(1.2):
        how = f" All outputs have {verdict.strength:.2g} times the contrast of the truth."
    return f"The model composes: {_right(verdict, f' {_cells(verdict)}')}{how}"


def _partly(verdict: Verdict) -> str:
    return f"The model partly composes: {_right(verdict, f' {_cells(verdict)}')} {_others(verdict)}."


def _others(verdict: Verdict, of: str = "") -> str:
    """The frequent failure modes, most frequent first, and the share of all others; `of` follows the first share."""
    found = sorted(((s, c) for c, s in verdict.unseen.items() if c in PLURALS), key=lambda pair: -pair[0])
    frequent = [(share, one) for share, one in found if share >= FREQUENT] or found[:1]
    ofs = [of, *[""] * len(frequent)]
    clauses = [f"{percent(share)}{of} {_plural(one, verdict)}" for (share, one), of in zip(frequent, ofs)]
    rest = sum(share for share, _ in found) - sum(share for share, _ in frequent)
    clauses += [f"{percent(rest)} fall into further classes"] if rest >= REST else []
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])}, and {clauses[-1]}"


def _plural(one: CellClass, verdict: Verdict) -> str:
    return UNEXPLAINED if one is CellClass.OTHER and math.isnan(verdict.right) else PLURALS[one]


def joined(words: Sequence[str]) -> str:
    """Words as a list in a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _failing(what: str) -> Callable[[Verdict], str]:
    def told(verdict: Verdict) -> str:
        known = "" if math.isnan(verdict.right) else f" {_right(verdict, '')}"
        return f"The model {what}: {_others(verdict, f' {_cells(verdict)}')}.{known}"

    return told


def _fails(verdict: Verdict) -> str:
    known = any(verdict.unseen.get(one, 0.0) >= FREQUENT for one in (CellClass.SUM, CellClass.COPY))
    return _failing(
        "fails on unseen combinations in several ways"
        if known
        else "fails on unseen combinations, but neither superposes nor copies"
    )(verdict)


def _not_learnt(verdict: Verdict) -> str:
    trained, least = verdict.trained.get(CellClass.RIGHT, 0.0), verdict.thresholds.learnt
    few = f"{percent(trained)} of their outputs are right, " if trained < least else ""
    return (
        f"The model has not learnt the trained combinations ({few}relative error {verdict.id_error:.2g}), so its "
        "outputs for unseen combinations are no evidence about composition."
    )


def _undecided(verdict: Verdict) -> str:
    assert verdict.reason is not None
    said = verdict.reason.meaning
    if verdict.reason is Undecided.TOO_FEW_CELLS:
        said += f" ({verdict.unseen_cells}, at least {verdict.thresholds.fewest} are needed)"
    if verdict.reason is Undecided.NO_TRUTH and verdict.unseen_cells:
        said += f" ({_structure(verdict)})"
    return f"No verdict: {said}."


def _structure(verdict: Verdict) -> str:
    """What the outputs alone show."""
    found = [one for one in STRUCTURE if verdict.unseen.get(one, 0.0) > 0]
    if not found:
        return "unseen outputs are not explained clearly better by other outputs than trained ones are"
    shares = {one: (verdict.unseen[one], verdict.trained.get(one, 0.0)) for one in found}
    said = [
        f"{percent(here)} {PLURALS[one]} ({percent(there)} of trained ones)" for one, (here, there) in shares.items()
    ]
    return f"of the unseen outputs {joined(said)}"


def _factors(verdict: Verdict) -> str:
    """The factors that are right and those that fail, if both occur and their shares differ clearly."""
    learnt = verdict.kind is VerdictKind.NOT_LEARNT
    shares = {row.factor: row.trained if learnt else row.unseen for row in verdict.factors}
    fails = [row.factor for row in verdict.factors if row.fails]
    works = [row.factor for row in verdict.factors if not row.fails]
    if not fails or not works:
        return ""
    if min(shares[name] for name in works) - max(shares[name] for name in fails) < verdict.thresholds.excess:
        return ""
    lucky = [row.factor for row in verdict.factors if BY_CHANCE <= row.unseen < row.chance + BY_CHANCE]
    random = set() if learnt else set(lucky) & set(fails)
    said = {name: percent(shares[name]) + (", as by chance" if name in random else "") for name in shares}
    right, wrong = (joined([said[name] for name in names]) for names in (works, fails))
    if verdict.kind in MEMORIES:
        return (
            f"The right value of {joined(works)} is shown in {right} of the unseen outputs, "
            f"that of {joined(fails)} in {wrong}."
        )
    of = f"right value in {right} of the {'trained' if learnt else 'unseen'} outputs"
    verbs = [("is learnt", "are learnt"), ("is", "are")] if learnt else [("composes", "compose"), ("does", "do")]
    first, second = (pair[len(names) > 1] for pair, names in zip(verbs, (works, fails), strict=True))
    return f"{joined(works)} {first} ({of}), but {joined(fails)} {second} not ({wrong})."


_SENTENCES: dict[VerdictKind, Callable[[Verdict], str]] = {
    VerdictKind.COMPOSES: _composes,
    VerdictKind.PARTLY: _partly,
    VerdictKind.SUPERPOSES: _failing("superposes"),
    VerdictKind.COPIES: _failing("copies"),
    VerdictKind.COLLAPSES: _failing("collapses on unseen combinations"),
    VerdictKind.FAILS: _fails,
    VerdictKind.NOT_LEARNT: _not_learnt,
    VerdictKind.UNDECIDED: _undecided,
}
