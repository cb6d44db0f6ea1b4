"""What docs/diagnose.md and docs/verdict.md show works as shown."""

import re
from pathlib import Path

import pytest
import torch

import recombine as rc
from recombine.diagnostics.cells.thresholds import THRESHOLDS
from recombine.diagnostics.part import PARTS, chosen_parts

GUIDE = (Path(__file__).parents[2] / "docs" / "diagnose.md").read_text(encoding="utf-8")
VERDICT = (Path(__file__).parents[2] / "docs" / "verdict.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict = {}
    found = []
    for example in EXAMPLES:
        exec(example, names)
        found.append(names["diagnosis"])
    mlp, transformer, vae, loaded = found
    assert mlp.layers == ("in", "1", "3", "out")
    assert not mlp["errors"].computed
    assert transformer.layers == ("embed", "body.layers.0", "body.layers.1", "out")
    assert transformer["geometry"].facts["method"] == "finite difference"
    assert transformer.verdict.kind == "not learnt"
    assert vae.layers == ("in", "decoder.1", "decoder.3", "out")
    assert all(vae[part.name].computed for part in chosen_parts(rc.DiagnosisRequest()))
    assert str(loaded) == str(vae)
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_explained(part):
    assert f"| `{part}` |" in GUIDE


def test_every_threshold_is_stated():
    for name, value in vars(THRESHOLDS).items():
        assert f"| `{name}` | {value:g} |" in VERDICT
