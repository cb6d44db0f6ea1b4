"""The committed results: every verdict follows from what is committed beside it."""

import json
from pathlib import Path

import pytest

from recombine.studies.framework import edition_1
from recombine.studies.framework.verdicts import Evidence, judge_by_intervals

PILOT = Path(__file__).parents[2] / "docs" / "results" / "pilot"
COMMITTED = {row["claim"]: row for row in json.loads((PILOT / "claims.json").read_text())}

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("claim", edition_1.CLAIMS)
def test_the_pilots_verdicts_follow_from_its_numbers(claim):
    committed = COMMITTED[claim]
    found = {
        f"{claim}.{part['part']}": Evidence({int(seed): value for seed, value in part["effects"].items()})
        for part in committed["parts"]
    }
    verdict = judge_by_intervals(edition_1.CLAIMS[claim], found, [0, 1, 2]).to_json()
    assert verdict["verdict"] == committed["verdict"]
    assert verdict["decided_by"] == committed["decided_by"]
    for ours, theirs in zip(verdict["parts"], committed["parts"], strict=True):
        assert ours["verdict"] == theirs["verdict"]
        assert ours["threshold"] == theirs["threshold"]
        assert ours["interval"] == pytest.approx(theirs["interval"], rel=1e-8)
