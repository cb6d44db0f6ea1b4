"""The committed results: every verdict follows from what is committed beside it."""

import json
from pathlib import Path

import pytest
from tools.publish_results import OVERVIEW, derived, overview, page

from recombine.studies.framework import edition_1
from recombine.studies.framework.output import Output
from recombine.studies.framework.verdicts import Evidence, decide_by_intervals

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PILOT = RESULTS / "pilot"
COMMITTED = {row["claim"]: row for row in json.loads((PILOT / "claims.json").read_text())}
PUBLISHED = [path.parent for path in RESULTS.glob("*/reproduce.json") if path.parent != PILOT]

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("claim", edition_1.CLAIMS)
def test_the_pilots_verdicts_follow_from_its_numbers(claim):
    committed = COMMITTED[claim]
    found = {
        f"{claim}.{part['part']}": Evidence({int(seed): value for seed, value in part["effects"].items()})
        for part in committed["parts"]
    }
    verdict = decide_by_intervals(edition_1.CLAIMS[claim], found, [0, 1, 2]).to_json()
    assert verdict["verdict"] == committed["verdict"]
    assert verdict["decided_by"] == committed["decided_by"]
    for ours, theirs in zip(verdict["parts"], committed["parts"], strict=True):
        assert ours["verdict"] == theirs["verdict"]
        assert ours["threshold"] == theirs["threshold"]
        assert ours["interval"] == pytest.approx(theirs["interval"], rel=1e-8)


def check_alike(ours, theirs, where=""):
    """Compare two JSON values; numbers may differ by rounding, which depends on the processor."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for key in theirs:
            check_alike(ours[key], theirs[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for i, pair in enumerate(zip(ours, theirs)):
            check_alike(*pair, f"{where}[{i}]")
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-8, abs=1e-8), where
    else:
        assert ours == theirs, where


def check_published(folder: Path) -> list[str]:
    """Derive every verdict of a folder of results again from its rows; returns the claims."""
    output = Output(folder, json.loads((folder / "reproduce.json").read_text())["profile"])
    committed = {row["claim"]: row for row in json.loads((folder / "claims.json").read_text())}
    found = []
    for verdict in (row for key in output.studies() for row in derived(output, key)):
        check_alike(json.loads(json.dumps(verdict)), committed[verdict["claim"]], verdict["claim"])
        found.append(verdict["claim"])
    assert sorted(found) == sorted(committed)
    return found


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_published_verdicts_follow_from_the_rows_beside_them(folder):
    assert check_published(folder)
    assert (folder / "README.md").read_text(encoding="utf-8") == page(folder)


def test_differing_verdicts_are_noticed():
    check_alike({"a": [1.0, 2, None]}, {"a": [1.0 + 1e-12, 2, None]})
    for other in ({"a": [1.001, 2, None]}, {"a": [1.0, 3, None]}, {"a": [1.0, 2]}, {"b": 1}, {"a": [1.0, 2, 0.0]}):
        with pytest.raises(AssertionError):
            check_alike({"a": [1.0, 2, None]}, other)


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_tests_and_their_correction_are_those_of_scipy_and_statsmodels(folder):
    from scipy import stats
    from statsmodels.stats.multitest import multipletests

    checked = 0
    for claim in json.loads((folder / "claims.json").read_text()):
        for decides in (True, False):
            family = [part for part in claim["parts"] if part["decides"] == decides]
            if not family or any(part["test"] == "fit" or part["reason"] for part in family):
                continue
            raw = {"p_for": [], "p_against": []}
            for part in family:
                values, sides = list(part["effects"].values()), ("greater", "less")
                if part["test"] == "mean":
                    tests = [stats.ttest_1samp(values, part["threshold"], alternative=side) for side in sides]
                else:
                    apart = [value for value in values if value != part["threshold"]]
                    above = sum(value > part["threshold"] for value in apart)
                    tests = [stats.binomtest(above, len(apart), alternative=side) for side in sides]
                greater, less = (float(test.pvalue) for test in tests)
                claimed, other = (greater, less) if part["direction"] == "above" else (less, greater)
                raw["p_for"].append(claimed)
                raw["p_against"].append(other)
            for side, values in raw.items():
                corrected = multipletests(values, method="holm")[1]
                assert [part[side] for part in family] == pytest.approx(corrected, rel=1e-8, abs=1e-12), claim["claim"]
                checked += len(family)
    assert checked > (20 if folder.name == "paper" else 40)


def test_the_overview_is_that_of_the_published_profiles():
    below = (RESULTS / "README.md").read_text(encoding="utf-8").partition(OVERVIEW)[2]
    assert below == overview(RESULTS)
