"""What docs/forced-rendering.md shows works as shown."""

import re
from pathlib import Path

import torch

import recombine as rc
from recombine.cli.app import app
from recombine.studies.paper import r07_ablation as ablation
from recombine.studies.paper import r08_stripes as stripes
from recombine.studies.paper import r09_threshold as threshold

GUIDE = (Path(__file__).parents[2] / "docs/forced-rendering.md").read_text(encoding="utf-8")


def test_the_renderer_learns_in_the_plain_loop():
    block, _ = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len([line for line in block.splitlines() if line.strip()]) <= 10
    torch.manual_seed(0)
    indices = torch.cartesian_prod(torch.arange(8), torch.arange(8))
    images = rc.scenes.Bump(rc.FactorSpace(x=8, y=8))(indices.float()).unsqueeze(1)
    names: dict = {"batches": [(indices, images)] * 60}
    exec(block, names)
    assert (names["model"](indices) - images).square().mean() < 0.5 * images.var()
    assert names["loss"].isfinite()


def test_the_commands_are_commands():
    from typer.testing import CliRunner

    commands = re.findall(r"```sh\nrecombine (.*?)```", GUIDE, re.DOTALL)
    assert len(commands) == 2
    for command in commands:
        result = CliRunner().invoke(app, [*command.replace("\\\n", " ").split(), "--dry-run"])
        assert result.exit_code == 0, result.output


def test_the_studies_are_called_as_they_are(monkeypatch, tmp_path):
    calls = []
    for module, name in ((ablation, "ablation"), (stripes, "few_shot"), (threshold, "threshold")):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, _small(original, calls))
    monkeypatch.chdir(tmp_path)
    _, block = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    exec(block, {})
    assert calls == ["ablation", "few_shot", "threshold"]
    assert {p.name for p in tmp_path.glob("*.png")} == {"ablation.png", "stripes.png", "threshold.png"}


def _small(study, calls):
    """The study with its settings cut to a few steps of tiny models; what the guide passes must be accepted."""
    tiny = ["scene.factors.x=6", "scene.factors.y=6", "training.steps=2"]
    cnn = ["decoder.depth=2", "decoder.width=4"]
    settings: dict = {
        "ablation": {"setting": [*tiny, "holdout.threshold=3"], "seeds": [0]},
        "few_shot": {"setting": [*tiny, "holdout.lo=2", "holdout.hi=3", *cnn], "seeds": [0], "bumps": (0, 2)},
        "threshold": {"setting": ["training.steps=2", *cnn], "sides": (8,), "seeds": [0], "most": 8},
    }

    def call(store, **given):
        calls.append(study.__name__)
        return study(store, **{**given, **settings[study.__name__]})

    return call
