"""Verdicts from hand-made effect sizes, in all outcomes."""

import math

import pytest
from scipy import stats

from recombine.studies.framework.claims import CLAIMS, Claim, ClaimPart
from recombine.studies.framework.verdicts import interval, judge, judge_part

SEEDS = [0, 1, 2]
ABOVE = ClaimPart("above", "a number", "above", 1.0)
BELOW = ClaimPart("below", "a number", "below", 1.0)
WITHIN = ClaimPart("within", "a number", "within", (2.5, 3.5))


def near(value: float) -> dict[int, float]:
    """Effects of three seeds whose interval is narrow."""
    return {0: value - 0.01, 1: value, 2: value + 0.01}


WIDE = {0: 0.0, 1: 1.0, 2: 2.0}


@pytest.mark.parametrize(
    ("part", "effects", "outcome"),
    [
        (ABOVE, near(2), "reproduced"),
        (ABOVE, near(0), "not reproduced"),
        (ABOVE, WIDE, "inconclusive"),
        (BELOW, near(0), "reproduced"),
        (BELOW, near(2), "not reproduced"),
        (BELOW, WIDE, "inconclusive"),
        (WITHIN, near(3), "reproduced"),
        (WITHIN, near(2), "not reproduced"),
        (WITHIN, near(4), "not reproduced"),
        (WITHIN, near(2.5), "inconclusive"),
        (WITHIN, {0: 0.0, 1: 3.0, 2: 6.0}, "inconclusive"),  # holds the whole range
    ],
)
def test_the_whole_interval_must_lie_on_one_side(part, effects, outcome):
    assert judge_part(part, effects, SEEDS).outcome == outcome


def test_the_interval_is_students():
    mean, low, high = interval([1.0, 2.0, 3.0])
    expected = stats.t.interval(0.95, 2, loc=2.0, scale=stats.sem([1.0, 2.0, 3.0]))
    assert (mean, low, high) == pytest.approx((2.0, *expected))
    assert interval([5.0, 5.0]) == (5.0, 5.0, 5.0)
    assert math.isnan(interval([])[0])


def test_a_missing_or_undefined_seed_is_inconclusive_and_says_why():
    lacking = judge_part(ABOVE, {0: 5.0, 1: 5.0}, SEEDS, "run 12ab failed: it diverged")
    assert lacking.outcome == "inconclusive"
    assert lacking.reason == "no number for seed 2: run 12ab failed: it diverged"
    undefined = judge_part(ABOVE, {0: 5.0, 1: 5.0, 2: math.nan}, SEEDS)
    assert (undefined.outcome, undefined.reason) == ("inconclusive", "no number for seed 2")
    single = judge_part(ABOVE, {0: 5.0}, [0])
    assert (single.outcome, single.reason) == ("inconclusive", "an interval needs at least two seeds")


def test_effects_of_other_seeds_do_not_count():
    assert judge_part(ABOVE, {**near(2), 7: -100.0}, SEEDS).outcome == "reproduced"


@pytest.mark.parametrize(
    ("first", "second", "outcome", "decided_by"),
    [
        (near(2), near(-5), "reproduced", "above"),
        (near(9), near(0), "reproduced", "below"),
        (near(0), near(9), "not reproduced", "below"),
        (near(2), near(2), "not reproduced", "below"),
        (WIDE, near(2), "not reproduced", "below"),
        (WIDE, near(0), "inconclusive", "above"),
        (near(2), WIDE, "inconclusive", "below"),
        (near(2), {}, "inconclusive", "below"),
    ],
)
def test_a_claim_of_several_parts_needs_all_of_them(first, second, outcome, decided_by):
    claim = Claim("C0", "two things hold", (ABOVE, BELOW))
    found = judge(claim, {"C0.above": first, "C0.below": second}, SEEDS).to_json()
    assert (found["verdict"], found["decided_by"]) == (outcome, decided_by)
    assert [part["part"] for part in found["parts"]] == ["above", "below"]
    assert {"claim", "verdict", "statistic", "interval", "n_seeds", "threshold"} <= set(found)


@pytest.mark.parametrize(
    ("part", "effects", "margin"),
    [
        (ABOVE, {0: 2.0, 1: 3.0}, 1.5 / 6.353102),  # the half width of two numbers d apart is 12.706 d / 2
        (BELOW, {0: 2.0, 1: 3.0}, -1.5 / 6.353102),
        (WITHIN, {0: 2.5, 1: 3.1}, 0.3 / 3.811861),
        (ABOVE, {0: 2.0, 1: 2.0}, math.inf),
        (ABOVE, {0: 1.0, 1: 1.0}, 0.0),
        (ABOVE, {0: 2.0}, -math.inf),
    ],
)
def test_margins_are_in_half_widths_of_the_interval(part, effects, margin):
    assert judge_part(part, effects, [0, 1]).margin == pytest.approx(margin, rel=1e-5)


@pytest.mark.parametrize(("second", "decided_by"), [({0: 2.0, 1: 2.01}, "below"), (near(2), "above")])
def test_a_failure_makes_a_claim_inconclusive_whatever_was_found(second, decided_by):
    claim = Claim("C0", "two things hold", (ABOVE, BELOW))
    found = judge(claim, {"C0.above": WIDE, "C0.below": second}, SEEDS, "not reached", "run 12ab failed: NaN").to_json()
    assert (found["verdict"], found["reason"]) == ("inconclusive", "run 12ab failed: NaN")
    assert found["decided_by"] == decided_by


def test_what_is_written_is_json():
    import json

    found = judge(Claim("C0", "a claim", (ABOVE, WITHIN)), {"C0.above": near(2)}, SEEDS).to_json()
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again["parts"][0]["effects"] == {"0": 1.99, "1": 2.0, "2": 2.01}
    assert again["parts"][1]["interval"] is None
    assert again["parts"][1]["threshold"] == [2.5, 3.5]


def test_all_claims_are_declared():
    assert list(CLAIMS) == [f"C{n}" for n in range(1, 15)]
    for claim in CLAIMS.values():
        names = [part.name for part in claim.parts]
        assert len(set(names)) == len(names) > 0
        for part in claim.parts:
            assert isinstance(part.threshold, tuple) == (part.direction == "within")
            assert claim.part(part.name) is part
