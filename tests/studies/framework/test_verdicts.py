"""Verdicts from hand-made effect sizes, in all outcomes."""

import math

import pytest

from recombine.studies.framework import edition_1, edition_2
from recombine.studies.framework.claims import Claim, ClaimPart, Test
from recombine.studies.framework.growth import Observation, fit_growth
from recombine.studies.framework.inference import seeds_needed, seeds_needed_by_sign_test
from recombine.studies.framework.verdicts import Evidence, Outcome, decide, decide_by_intervals

pytestmark = pytest.mark.quick

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
def test_first_edition_the_whole_interval_must_lie_on_one_side(part, effects, outcome):
    assert first(part, effects).outcome == outcome


def first(part, effects, seeds=SEEDS, why=""):
    return decide_by_intervals(Claim("C0", "", (part,)), {f"C0.{part.name}": Evidence(effects)}, seeds, why).parts[0]


def second(part, effects, seeds=SEEDS, **evidence):
    return decide(Claim("C0", "", (part,)), {f"C0.{part.name}": Evidence(effects, **evidence)}, seeds).parts[0]


@pytest.mark.parametrize("tested", [first, second])
def test_a_missing_or_undefined_seed_is_inconclusive_and_says_which(tested):
    for effects in ({0: 5.0, 1: 5.0}, {0: 5.0, 1: 5.0, 2: math.nan}):
        lacking = tested(ABOVE, effects)
        assert lacking.outcome == Outcome.INCONCLUSIVE
        assert "2" in lacking.reason
    assert tested(ABOVE, {0: 5.0}, [0]).outcome == Outcome.INCONCLUSIVE
    assert "it diverged" in first(ABOVE, {0: 5.0}, why="run 12ab failed: it diverged").reason


@pytest.mark.parametrize(
    ("part", "effects", "outcome"),
    [
        (ABOVE, near(2), "reproduced"),
        (ABOVE, near(0), "not reproduced"),
        (ABOVE, WIDE, "inconclusive"),
        (BELOW, near(0), "reproduced"),
        (BELOW, near(2), "not reproduced"),
        (WITHIN, near(3), "reproduced"),
        (WITHIN, near(2), "not reproduced"),
        (WITHIN, near(4), "not reproduced"),
        (WITHIN, near(2.5), "inconclusive"),
        (WITHIN, {0: 0.0, 1: 3.0, 2: 6.0}, "inconclusive"),
    ],
)
def test_second_edition_of_a_single_part(part, effects, outcome):
    assert second(part, effects).outcome == outcome


def test_parts_share_the_error():
    """A part that decides alone at p = 0.02 does not among four; reported parts are a family of their own."""
    effects = {0: 1.0, 1: 1.9, 2: 2.8}
    alone = second(ClaimPart("a", "", "above", -0.9), effects)
    assert 0.0125 < alone.p_for <= 0.025
    four = tuple(ClaimPart(name, "", "above", -0.9) for name in "abcd")
    reported = ClaimPart("e", "", "above", -0.9, decides=False)
    found = decide(Claim("C0", "", (*four, reported)), {f"C0.{n}": Evidence(effects) for n in "abcde"}, SEEDS)
    assert [part.outcome for part in found.parts] == ["inconclusive"] * 4 + ["reproduced"]
    assert found.parts[0].p_for == pytest.approx(4 * alone.p_for)


def test_reported_parts_do_not_decide():
    claim = Claim("C0", "", (ABOVE, ClaimPart("literal", "", "above", 1.0, decides=False)))
    found = decide(claim, {"C0.above": Evidence(near(2)), "C0.literal": Evidence(near(0))}, SEEDS)
    assert found.outcome == Outcome.REPRODUCED
    assert found.parts[1].outcome == Outcome.NOT_REPRODUCED
    assert found.deciding.part is ABOVE


def test_medians_forgive_one_seed_that_went_astray():
    seeds = list(range(10))
    effects = {seed: 2.0 + seed / 100 for seed in seeds} | {3: -50.0}
    assert second(ABOVE, effects, seeds).outcome == Outcome.INCONCLUSIVE
    assert second(ClaimPart("above", "", "above", 1.0, test=Test.MEDIAN), effects, seeds).outcome == Outcome.REPRODUCED


def test_seeds_that_never_learnt_are_left_out_and_named():
    seeds = list(range(8))
    values = {seed: 2.0 + seed / 100 for seed in seeds[:6]}
    some = second(ABOVE, values, seeds, left_out={6: "never learnt", 7: "never learnt"})
    assert some.outcome == Outcome.REPRODUCED
    assert some.to_json()["left_out"] == {"6": "never learnt", "7": "never learnt"}
    del values[5]
    many = second(ABOVE, values, seeds, left_out=dict.fromkeys((5, 6, 7), "never learnt"))
    assert many.outcome == Outcome.INCONCLUSIVE
    assert "never learnt" in many.reason


def test_a_fit_is_judged_by_its_likelihood():
    part = ClaimPart("bumps", "", "within", (2.5, 3.5), test=Test.FIT)
    made = [Observation(n, s, 0.9 * n**3, 1.1 * n**3) for n in (16, 24, 32) for s in SEEDS]
    evidence = dict.fromkeys(SEEDS, 3.0)
    found = second(part, evidence, fit=fit_growth(made))
    assert found.outcome == Outcome.REPRODUCED
    assert found.estimate == pytest.approx(3, abs=0.1)
    flat = [Observation(n, s, 0.9 * n, 1.1 * n) for n in (16, 24, 32) for s in SEEDS]
    assert second(part, evidence, fit=fit_growth(flat)).outcome == Outcome.NOT_REPRODUCED
    assert second(part, evidence).outcome == Outcome.INCONCLUSIVE


def test_effects_of_other_seeds_do_not_count():
    assert first(ABOVE, {**near(2), 7: -100.0}).outcome == second(ABOVE, {**near(2), 7: -100.0}).outcome == "reproduced"


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
    found = {"C0.above": Evidence(first), "C0.below": Evidence(second)}
    found = decide_by_intervals(claim, found, SEEDS).to_json()
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
    assert first(part, effects, [0, 1]).margin == pytest.approx(margin, rel=1e-5)


@pytest.mark.parametrize(("second", "decided_by"), [({0: 2.0, 1: 2.01}, "below"), (near(2), "above")])
def test_a_failure_makes_a_claim_inconclusive_whatever_was_found(second, decided_by):
    claim = Claim("C0", "two things hold", (ABOVE, BELOW))
    found = {"C0.above": Evidence(WIDE), "C0.below": Evidence(second)}
    found = decide_by_intervals(claim, found, SEEDS, "not reached", "run 12ab failed: NaN").to_json()
    assert (found["verdict"], found["reason"]) == ("inconclusive", "run 12ab failed: NaN")
    assert found["decided_by"] == decided_by


def test_what_is_written_is_json():
    import json

    found = decide(Claim("C0", "a claim", (ABOVE, WITHIN)), {"C0.above": Evidence(near(2))}, SEEDS).to_json()
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again["parts"][0]["effects"] == {"0": 1.99, "1": 2.0, "2": 2.01}
    assert again["parts"][1]["interval"] is None
    assert again["parts"][1]["threshold"] == [2.5, 3.5]


@pytest.mark.parametrize("edition", [edition_1, edition_2])
def test_all_claims_are_declared(edition):
    assert list(edition.CLAIMS) == [f"C{n}" for n in range(1, 15)]
    for claim in edition.CLAIMS.values():
        names = [part.name for part in claim.parts]
        assert len(set(names)) == len(names) > 0
        assert any(part.decides for part in claim.parts)
        for part in claim.parts:
            assert isinstance(part.threshold, tuple) == (part.direction == "within")
            assert claim.part(part.name) is part
            assert part.why or edition is edition_1


def test_an_inconclusive_part_says_how_many_seeds_would_decide_it():
    found = second(ABOVE, {0: 1.0, 1: 1.5, 2: 2.0})  # 0.5 beyond the threshold, sd 0.5
    assert found.outcome == Outcome.INCONCLUSIVE
    assert found.seeds_to_decide == seeds_needed(0.5, 0.5)
    assert second(ABOVE, near(2)).seeds_to_decide is None
    assert second(ABOVE, {0: 0.5, 1: 1.0, 2: 1.5}).seeds_to_decide is None  # on the threshold: no number decides
    assert second(ABOVE, {0: 5.0}, SEEDS).seeds_to_decide is None  # seeds are missing


def test_a_median_needs_as_many_seeds_as_its_sign_test():
    part = ClaimPart("a", "", "above", 1.0, test=Test.MEDIAN)
    found = second(part, {0: 2.0, 1: 2.0, 2: 2.0, 3: 2.0, 4: 0.0}, range(5))
    assert found.seeds_to_decide == seeds_needed_by_sign_test(0.8)


def test_a_claim_is_decided_by_one_part_against_it_or_by_all_for_it():
    leaning_for, strongly, against = {0: 1.2, 1: 1.7, 2: 2.2}, {0: 1.5, 1: 2.0, 2: 2.9}, {0: 0.3, 1: 0.6, 2: 1.1}
    parts = tuple(ClaimPart(name, "", "above", 1.0) for name in "ab")

    def needed(**effects):
        found = decide(Claim("C0", "", parts), {f"C0.{n}": Evidence(e) for n, e in effects.items()}, SEEDS)
        assert found.outcome == Outcome.INCONCLUSIVE
        return found.seeds_to_decide, [part.seeds_to_decide for part in found.parts]

    both, each = needed(a=leaning_for, b=strongly)
    assert both == max(each)
    one, each = needed(a=leaning_for, b=against)
    assert one == each[1]
