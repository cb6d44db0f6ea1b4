"""What docs/your-model.md shows works as shown."""

import functools
import re
from pathlib import Path

import pytest
import torch

import recombine as rc
from recombine.diagnostics.diagnose import diagnose

GUIDE = (Path(__file__).parents[2] / "docs" / "your-model.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


QUICK = ["outputs", "errors", "superposition"]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """An empty folder, few steps, and diagnoses of the parts that are quick."""
    monkeypatch.chdir(tmp_path)
    original = rc.training.Training.total_steps
    monkeypatch.setattr(rc.training.Training, "total_steps", lambda self, examples: min(30, original(self, examples)))
    quick = functools.partial(diagnose, parts=QUICK)
    monkeypatch.setattr(rc, "diagnose", quick, raising=False)
    of_run = rc.Run.diagnose
    monkeypatch.setattr(rc.Run, "diagnose", lambda self, **options: of_run(self, **{"parts": QUICK, **options}))
    torch.manual_seed(0)


def test_the_examples_run(small):
    names: dict = {}
    found = []
    for example in EXAMPLES:
        exec(example.replace("range(1000)", "range(5)"), names)
        found.append(names.get("diagnosis"))
    start, painter, embedded, vae, fixed, sampler, pretrained = found
    assert start is None
    assert painter.layers == ("in", "body.1", "body.3", "out")
    assert embedded.layers == ("in", "head.1", "out")
    assert vae.layers == fixed.layers == ("in", "decoder.1", "out")
    assert sampler.layers == ("in", "net.1", *(f"net.1#{n}" for n in (2, 3, 4)), "out")
    assert pretrained.layers == ("layers.0", "layers.1", "layers.2")
    for diagnosis in found[1:]:
        assert diagnosis["errors"].computed
        assert diagnosis["draws"].computed == (diagnosis in (vae, sampler))
        assert not [note for note in diagnosis.notes if "draw" not in note], diagnosis.notes
    assert len(names["page"]) > 10_000
    assert Path("log.csv").read_text().startswith("seed,step")


def test_the_guides_are_short():
    for name in ("your-model", "your-data", "hard-models"):
        text = (Path(__file__).parents[2] / "docs" / f"{name}.md").read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 200, name
