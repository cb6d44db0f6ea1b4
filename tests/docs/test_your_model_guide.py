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


@pytest.fixture
def small(tmp_path, monkeypatch):
    """An empty folder, few steps, and diagnoses of the parts that are quick and of the layers."""
    monkeypatch.chdir(tmp_path)
    original = rc.training.Training.total_steps
    monkeypatch.setattr(rc.training.Training, "total_steps", lambda self, examples: min(30, original(self, examples)))
    quick = functools.partial(diagnose, parts=["outputs", "errors", "superposition"])
    monkeypatch.setattr(rc, "diagnose", quick, raising=False)
    torch.manual_seed(0)


def test_the_examples_run(small):
    names: dict = {}
    found = []
    for example in EXAMPLES:
        exec(example.replace("range(200)", "range(5)"), names)
        found.append(names.get("diagnosis"))
    start, painter, embedded, vae, gan, sampler, dataclass, _ = found
    assert start is None
    assert painter.layers == ("in", "body.1", "body.3", "out")
    assert "out" in embedded.layers
    assert vae.layers == ("in", "vae.decoder.1", "vae.decoder.3", "out")
    assert gan["superposition"].computed
    assert "velocity.net.1" in sampler.layers
    assert dataclass.layers == ("model.layers.0", "model.layers.1", "model.layers.2")
    for diagnosis in found[1:]:
        assert diagnosis["errors"].computed
        assert not any("random" in note or "other outputs" in note for note in diagnosis.notes)
    assert len(names["page"]) > 10_000
