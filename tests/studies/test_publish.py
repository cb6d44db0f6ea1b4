"""The page about results says where they come from, and nothing else."""

import json

import pytest
from tools.publish_results import check_alike, overview, page, publish, write_overview

from recombine.core.errors import StoreError
from recombine.studies.framework.output import FORMAT

CALL = {
    "command": "recombine reproduce all --profile standard --out /somewhere/else --seeds 2",
    "seeds": {"landscapes": [100, 101]},
    "started": "2026-11-16T01:00:00+00:00",
    "ended": "2026-11-16T02:30:00+00:00",
    "seconds": 5400.0,
    "trained": 10,
    "studies": {},
    "versions": {"recombine": "0.1.0"},
    "hardware": {"machine": "x86_64", "cores": 8, "threads": 8, "gpus": 1},
}


def published(tmp_path, *calls) -> str:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    about = {"format": FORMAT, "profile": "standard", "calls": list(calls)}
    (source / "reproduce.json").write_text(json.dumps(about))
    (source / "claims.json").write_text("[]")
    publish(source, target)
    assert "/somewhere" not in (target / "reproduce.json").read_text()
    assert (target / "README.md").read_text() == page(target)
    return page(target)


@pytest.mark.parametrize("word", ["--out /somewhere/else", "--out=/somewhere/else"])
def test_one_call_is_named_as_it_was(tmp_path, word):
    text = published(tmp_path, {**CALL, "command": CALL["command"].replace("--out /somewhere/else", word)})
    assert text.startswith("# Results of the standard profile")
    assert "**Partial.**" in text
    assert "`landscapes` (no rows)" in text
    assert "All 10 runs were trained in one call" in text
    assert "recombine reproduce all --profile standard --out" in text
    assert "seeds 100 … 101" in text
    assert "90.0 minutes" in text
    assert "8 cores (x86_64), 1 GPUs" in text


def test_several_calls_are_all_named_and_those_that_trained_nothing_are_not(tmp_path):
    killed = {**CALL, "ended": None, "seconds": None, "trained": 3}
    unknown = {**CALL, "started": None, "ended": None, "seconds": None, "trained": 4}
    text = published(tmp_path, unknown, killed, CALL, {**CALL, "trained": 0})
    assert "The 17 runs were not trained in one call" in text
    assert text.count("- `recombine reproduce") == 3
    assert "times were not recorded" in text
    assert "it was killed" in text


def test_widths_that_disagree_are_named(tmp_path):
    published(tmp_path, CALL)
    folder = tmp_path / "target"
    (folder / "tables").mkdir()
    (folder / "tables" / "volume-width_check.csv").write_text(
        "part,seed,narrow,wide,value_narrow,value_wide,same_side\n"
        "C6.bump,100,32,64,0.4,0.3,True\nC6.ramp,100,32,64,0.4,0.02,False\n"
    )
    text = page(folder)
    assert "Of 2 numbers of claims, 1 lie" in text
    assert "C6.ramp with 1 of 1 seeds (median of all: 0.4 at width 32, 0.02 at width 64)" in text


def test_rows_of_other_statistics_or_training_code_are_not_mixed(tmp_path):
    class Rows:
        def __init__(self, root, made):
            self.root, self.made = root, made

        def made_by(self, key):
            return self.made[key]

    new = Rows("new", {"landscapes": (2, "a"), "layers": (2, "a")})
    check_alike(new, ["landscapes"], Rows("old", {"layers": (2, "a")}), ["layers"])
    for other in ((1, "a"), (2, "b")):
        with pytest.raises(StoreError, match="cannot stand side by side"):
            check_alike(new, ["landscapes"], Rows("old", {"layers": other}), ["layers"])


def test_profiles_stand_side_by_side(tmp_path):
    assert overview(tmp_path) == ""
    row = {"claim": "C6", "verdict": "reproduced", "decided_by": "ramp", "n_seeds": 16}
    for name, missing in (("standard", {}), ("quick", {"volume": "1 of 3 seeds"})):
        (tmp_path / name).mkdir()
        rows = [row, {**row, "claim": "C7", "verdict": "inconclusive" if missing else "not reproduced"}]
        (tmp_path / name / "claims.json").write_text(json.dumps(rows))
        (tmp_path / name / "reproduce.json").write_text(json.dumps({"lacking": missing}))
    write_overview(tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "| claim | [quick](quick/README.md) (partial) | [standard](standard/README.md) |" in text
    assert "| **reproduced** (16 seeds) | **reproduced** (16 seeds) |" in text
    assert "| **inconclusive** (16 seeds; `ramp` is open) | **not reproduced** (16 seeds; `ramp` fails) |" in text
    write_overview(tmp_path)
    assert (tmp_path / "README.md").read_text() == text
