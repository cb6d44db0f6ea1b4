"""The committed results: every verdict follows from the committed rows, and the page says what the files say."""

import json
from pathlib import Path

import pytest
from tools.publish_results import page

from recombine.studies.framework.claims import CLAIMS
from recombine.studies.framework.output import Output
from recombine.studies.framework.profiles import PROFILES
from recombine.studies.framework.reproduce import judged
from recombine.studies.framework.study import discover

RESULTS = Path(__file__).parents[2] / "docs" / "results"
COMMITTED = {row["claim"]: row for row in json.loads((RESULTS / "claims.json").read_text())}


def test_there_is_a_verdict_on_every_claim():
    assert set(COMMITTED) == set(CLAIMS)


@pytest.mark.parametrize("study", [study for study in discover().values() if study.claims], ids=lambda study: study.key)
def test_verdicts_follow_from_the_rows(study):
    output = Output(RESULTS, "quick")
    part = output.load(study.key, arrays=False)
    for verdict in judged(study, part, output.seeds_of(study.key)):
        committed = COMMITTED[verdict["claim"]]
        assert verdict["verdict"] == committed["verdict"]
        assert verdict["statistic"] == pytest.approx(committed["statistic"], nan_ok=True)
        for ours, theirs in zip(verdict["parts"], committed["parts"], strict=True):
            assert {**ours, "reason": ""} == {**theirs, "reason": ""}  # reasons also tell of runs, which are not here


@pytest.mark.xfail(reason="the results are made again once all settings of format 2 are settled", strict=False)
@pytest.mark.parametrize("study", discover().values(), ids=lambda study: study.key)
def test_the_quick_profile_still_has_the_runs_of_the_rows(study):
    """Changes elsewhere must not change these configurations by accident: the results would be of other runs."""
    sidecar = json.loads((RESULTS / "tables" / f"{study.key}.json").read_text())
    declared = {config.hash for config in study.configs(PROFILES["quick"], sidecar["seeds"])}
    assert declared <= set(sidecar["runs"])


def test_the_page_is_that_of_the_files():
    assert (RESULTS / "README.md").read_text() == page(RESULTS)
