"""Published claims, tested on the rows of a comparison."""

import numpy as np
import pytest
from scipy import stats
from tools.publish_comparison import _claims

from recombine.studies.compare.published import CLAIMS, Claim, Outcome, outcomes, stratified_test
from recombine.studies.compare.remedy import REMEDIES
from recombine.studies.compare.splits import SPLITS
from recombine.studies.compare.suite import SUITES


def rows(shares):
    return [
        {"remedy": remedy, "scene": scene, "split": "comb", "seed": seed, "status": "done", "right": share}
        for (remedy, scene), each in shares.items()
        for seed, share in enumerate(each)
    ]


def test_one_group_is_a_t_test():
    values = [0.3, 0.5, 0.45, 0.2]
    found = stratified_test([values], 0.1)
    expected = stats.ttest_1samp(values, 0.1, alternative="greater")
    assert found.p_above == pytest.approx(expected.pvalue, rel=1e-9)
    low, high = stats.ttest_1samp(values, 0.1).confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.p_above + found.p_below == pytest.approx(1)


def test_two_groups_are_a_welch_test():
    first, second = [0.3, 0.5, 0.45, 0.2], [0.9, 0.1, 0.4]
    found = stratified_test([first, second], 0.0)
    expected = stats.ttest_ind(first, -np.array(second), equal_var=False, alternative="greater")
    assert found.p_above == pytest.approx(expected.pvalue, rel=1e-9)
    interval = stats.ttest_ind(first, -np.array(second), equal_var=False).confidence_interval(0.95)
    assert (2 * found.low, 2 * found.high) == (pytest.approx(interval.low), pytest.approx(interval.high))


def test_groups_without_spread_and_single_seeds():
    sure = stratified_test([[1.0, 1.0], [0.5, 0.5]], 0.7)
    assert (sure.estimate, sure.low, sure.p_above, sure.p_below) == (0.75, 0.75, 0.0, 1.0)
    single = stratified_test([[1.0]], 0.7)
    assert (single.p_above, single.p_below) == (1.0, 1.0)


def test_claims_hold_fail_or_stay_open():
    good, bad, noisy = Claim("g", "", "", "good"), Claim("b", "", "", "bad"), Claim("n", "", "", "noisy")
    gain = Claim("gain", "", "", "good", 0.0, "bad")
    hurts = Claim("hurts", "", "", "bad", 0.0, "good", below=True)
    absent = Claim("absent", "", "", "unknown")
    elsewhere = Claim("elsewhere", "", "", "good", scenes=("other",))
    given = rows({("good", "s"): [1.0, 0.99, 1.0], ("bad", "s"): [0.1, 0.12, 0.1], ("noisy", "s"): [0.8, 1.0, 0.95]})
    found = {row["claim"]: row for row in outcomes(given, [good, bad, noisy, gain, hurts, absent, elsewhere])}
    assert {name: row["outcome"] for name, row in found.items()} == {
        "g": Outcome.HOLDS, "b": Outcome.FAILS, "n": Outcome.OPEN, "gain": Outcome.HOLDS, "hurts": Outcome.HOLDS,
    }  # fmt: skip
    assert found["gain"]["number"] == pytest.approx(0.89)


def test_several_claims_are_corrected():
    claim = Claim("c", "", "", "a", 0.0)
    given = rows({("a", "s"): [0.1, 0.2, 0.3, 0.15]})
    assert outcomes(given, [claim])[0]["outcome"] == Outcome.HOLDS
    assert {row["outcome"] for row in outcomes(given, [claim] * 9)} == {Outcome.OPEN}


def test_only_seeds_that_both_remedies_have_are_compared():
    claim = Claim("c", "", "", "a", 0.0, "b")
    [row] = outcomes(rows({("a", "s"): [0.5, 0.6, 0.7], ("b", "s"): [0.1, 0.2]}), [claim])
    assert row["seeds"] == 2


def test_claims_are_about_what_the_small_suite_compares():
    small = SUITES["small"]
    for claim in CLAIMS:
        assert claim.remedy in small.remedies, claim
        assert claim.control is None or claim.control in REMEDIES
        assert set(claim.scenes) <= set(small.scenes)
        assert set(claim.splits) <= set(SPLITS)
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)


def test_the_table_names_the_number_and_the_threshold():
    gain = Claim("gain", "A helps", "us", "a", 0.0, "b")
    found = outcomes(rows({("a", "s"): [0.5, 0.6, 0.7], ("b", "s"): [0.1, 0.2, 0.3]}), [gain])
    text = _claims([{key: "" if value is None else str(value) for key, value in row.items()} for row in found])
    assert text[-1] == "| A helps | us | `a` − `b` | s; comb | > 0 | 0.40 (0.40 to 0.40) | **holds** |"
