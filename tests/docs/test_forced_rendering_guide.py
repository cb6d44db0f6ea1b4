"""What docs/forced-rendering.md shows works as shown."""

import re
from pathlib import Path

import torch

import recombine as rc
from recombine.cli.app import app
from recombine.studies.framework import profiles, reproduce

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


def test_the_studies_are_called_as_they_are(monkeypatch):
    calls = []
    monkeypatch.setattr(reproduce, "reproduce", lambda words, profile, out: calls.append((words, profile, str(out))))
    _, block = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    exec(block, {})
    [(words, profile, out)] = calls
    assert profile is profiles.PROFILES["quick"]
    assert out == "reproduction"
    chosen = [study.key for study in reproduce.select(words, reproduce.discover())]
    assert chosen == ["rendering", "few_shot", "scaling"]
