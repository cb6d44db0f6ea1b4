"""One verdict for several runs: means, an interval over runs, and what happens where they disagree."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

import recombine as rc
from recombine.core.errors import InputError
from recombine.diagnostics.cells.classes import CellClass
from recombine.diagnostics.verdict import FactorValues, Undecided, Verdict, VerdictKind, undecided
from recombine.diagnostics.verdict.over_runs import student_interval

pytestmark = pytest.mark.quick
RIGHT, SUM = CellClass.RIGHT, CellClass.SUM


def verdict(right, kind, *, cells=25, fails=False):
    return Verdict(kind, "…", unseen_cells=cells, trained_cells=50, right=right, interval=(0.0, 1.0),
                   unseen={RIGHT: right, SUM: 1 - right}, trained={RIGHT: 1.0}, manner=SUM,
                   factors=(FactorValues("x", right, 1.0, fails), FactorValues("y", 1.0, 1.0, False)),
                   id_error=0.01, ood_error=1 - right, strength=1.0)  # fmt: skip


def test_means_and_an_interval_over_runs():
    shares = [0.0, 0.04, 0.08, 0.0]
    found = rc.verdict_over([verdict(s, VerdictKind.SUPERPOSES, fails=s < 0.05) for s in shares])
    assert (found.kind, found.runs, found.kinds) == (VerdictKind.SUPERPOSES, 4, {VerdictKind.SUPERPOSES: 4})
    assert found.right == pytest.approx(0.03)
    low, high = stats.ttest_1samp(shares, 0.0).confidence_interval(0.95)
    assert found.interval == (pytest.approx(max(0.0, low)), pytest.approx(high))
    assert found.unseen == {RIGHT: pytest.approx(0.03), SUM: pytest.approx(0.97)}
    assert (found.factors[0].unseen, found.failing) == (pytest.approx(0.03), ("x",))
    assert "4 runs" in found.sentence
    assert Verdict.from_json(json.loads(json.dumps(found.to_json()))).to_json() == found.to_json()


def test_an_interval_over_runs_covers_the_mean_as_often_as_it_says():
    random = np.random.default_rng(0)
    draws = random.normal(0.5, 0.05, (400, 4))
    inside = [low <= 0.5 <= high for low, high in map(student_interval, draws.tolist())]
    assert 0.92 <= np.mean(inside) <= 0.98
    assert all(map(math.isnan, student_interval([0.5, math.nan])))


@pytest.mark.parametrize(
    ("kinds", "expected", "reason"),
    [
        (["superposes", "superposes", "composes"], "superposes", None),
        (["composes", "partly composes"], "partly composes", None),
        (["superposes", "composes"], "undecided", Undecided.RUNS_DISAGREE),
        (["superposes", "copies", "partly composes"], "undecided", Undecided.RUNS_DISAGREE),
        (["not learnt", "not learnt", "composes"], "not learnt", None),
    ],
)
def test_the_kind_of_most_runs(kinds, expected, reason):
    found = rc.verdict_over([verdict(0.5, VerdictKind(kind)) for kind in kinds])
    assert (str(found.kind), found.reason) == (expected, reason)
    assert sum(found.kinds.values()) == len(kinds)


def test_a_run_that_says_nothing_counts_as_undecided():
    known = verdict(0.2, VerdictKind.PARTLY)
    found = rc.verdict_over([known, undecided(Undecided.NOT_COMPUTED), known])
    assert (found.kind, found.right) == (VerdictKind.PARTLY, pytest.approx(0.2))
    both = rc.verdict_over([undecided(Undecided.NO_TRUTH)] * 2)
    assert (both.kind, both.reason) == (VerdictKind.UNDECIDED, Undecided.NO_TRUTH)
    assert rc.verdict_over([known]) is known


def test_runs_that_cannot_be_compared_are_refused():
    one = verdict(0.2, VerdictKind.PARTLY)
    joined = rc.verdict_over([one, one])
    for wrong in ([], [one, verdict(0.2, VerdictKind.PARTLY, cells=36)], [one, joined],
                  [one, replace(one, thresholds=replace(one.thresholds, right=0.2))]):  # fmt: skip
        with pytest.raises(InputError):
            rc.verdict_over(wrong)


def test_diagnoses_of_several_seeds():
    space = rc.FactorSpace(x=5, y=5)
    options = {"target": lambda v: v.repeat(1, 10), "parts": "superposition", "progress": False}
    held = rc.holdouts.centre(space, 1, 3)
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(torch.nn.Linear(2, 20))
    found = [rc.diagnose(model, space, None, held, **options) for model in models]
    assert rc.verdict_over(found).kind is VerdictKind.NOT_LEARNT
    other = rc.diagnose(models[0], space, None, rc.holdouts.corner(space, 2), **options)
    with pytest.raises(InputError, match="hold-out"):
        rc.verdict_over([found[0], other])


def test_draws_of_one_model():
    space = rc.FactorSpace(x=6, y=6)
    truth = rc.scenes.Bump(space)

    def noisy(values):
        right = truth(values)
        return right + 0.3 * torch.randn_like(right) * (torch.rand(len(values)) < 0.5)[:, None, None]

    options = {"target": truth, "parts": ["superposition", "draws"], "draws": 3, "progress": False}
    found = rc.diagnose(noisy, space, None, rc.holdouts.centre(space, 2, 4), **options)
    single = [Verdict.from_json(one) for one in found["draws"].facts["verdicts"]["draws"]]
    joined = rc.verdict_over(single, of="draws")
    shares = [one.right for one in single]
    assert len(set(shares)) > 1
    assert joined.right == pytest.approx(np.mean(shares))
    assert joined.interval == student_interval(shares)
    assert "3 draws" in joined.sentence
    assert "interval is over draws" in joined.sentence
    with pytest.raises(InputError, match="draws"):
        rc.verdict_over(single, of="seeds")
