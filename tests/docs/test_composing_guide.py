"""What docs/composing.md shows works as shown."""

import re
from pathlib import Path

import torch
from typer.testing import CliRunner

import recombine as rc
from recombine.cli.app import app

GUIDE = (Path(__file__).parents[2] / "docs/composing.md").read_text(encoding="utf-8")


def test_the_composer_learns_in_the_plain_loop():
    block, _ = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    block = block.replace("(4, 9, 5)", "(6, 6)").replace("(3, 24, 24)", "(1, 6, 6)")
    torch.manual_seed(0)
    indices = torch.cartesian_prod(torch.arange(6), torch.arange(6))
    images = rc.scenes.Bump(rc.FactorSpace(x=6, y=6))(indices.float()).unsqueeze(1)
    names: dict = {"batches": [(indices, images)] * 60, "training_images": images}
    exec(block, names)
    assert (names["model"](indices) - images).square().mean() < 0.5 * images.var()


def test_the_command_is_a_command():
    [command] = re.findall(r"```sh\nrecombine (.*?)```", GUIDE, re.DOTALL)
    result = CliRunner().invoke(app, [*command.replace("\\\n", " ").split(), "--dry-run"])
    assert result.exit_code == 0, result.output


def test_the_decoder_is_used_as_shown(capsys):
    _, block = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    space = rc.FactorSpace(x=6, y=6)
    task = rc.Task(rc.scenes.Bump(space), rc.encodings.OneHot(space), rc.holdouts.centre(space, 2, 3))
    exec(block.replace('"composed")', 'rc.recipe("composed", steps=3, settle=0))'), {"rc": rc, "task": task})
    assert "x " in capsys.readouterr().out
