"""The page about results says where they come from, and nothing else."""

import json

import pytest
from tools.publish_results import page, publish

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
    about = {"format": "recombine-reproduce-1", "profile": "standard", "calls": list(calls)}
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
