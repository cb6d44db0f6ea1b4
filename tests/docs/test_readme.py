"""What the README shows works as shown."""

import re
from pathlib import Path

import matplotlib
import pytest
import torch
from torch import nn

import recombine as rc
from recombine.cli.app import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def few_steps(monkeypatch, tmp_path):
    """All recipes, cut to three steps, in an empty folder."""
    original = rc.training.Training.total_steps
    monkeypatch.setattr(rc.training.Training, "total_steps", lambda self, examples: min(3, original(self, examples)))
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    return tmp_path


def test_the_python_examples_run(few_steps):
    first, second = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict = {}
    exec(first, names)
    assert len(first.strip().splitlines()) <= 10
    assert (few_steps / "landscape.png").stat().st_size > 1000
    assert names["run"].scores.summary()["id", "mse"].cells == 495
    names["any_module"] = nn.Sequential(nn.Linear(56, 784), nn.Unflatten(1, (28, 28)))
    names["codes"] = torch.zeros(2, 56)
    exec(second, names)
    assert [run.seed for run in names["runs"]] == list(range(8))


def test_the_shell_examples_are_valid(few_steps):
    from typer.testing import CliRunner

    commands = [line.split("#")[0].split() for line in README.splitlines() if line.startswith("recombine ")]
    assert len(commands) >= 4
    for _, *words in commands:
        dry = ["--dry-run"] if words[0] in ("train", "sweep") and "--dry-run" not in words else []
        result = CliRunner().invoke(app, [*words, *dry])
        assert result.exit_code == 0, (words, result.output)


def test_every_kind_is_listed():
    from recombine.runs.config import GROUPS

    for group, family in GROUPS.items():
        [row] = [line for line in README.splitlines() if line.startswith(f"| `{group}` |")]
        for kind in family.models:
            assert f"`{kind}`" in row, (group, kind)


def test_the_tree_names_what_exists():
    tree = re.findall(r"```\n(src/recombine/.*?)```", README, re.DOTALL)[0]
    for name in re.findall(r"(?:^|\s{2,})(\w+(?:\.py|/))(?=\s)", tree):
        assert (ROOT / "src/recombine" / name).exists() or (ROOT / name).exists(), name


def test_the_demo_table_has_numbers():
    rows = [line for line in README.splitlines() if re.match(r"\| bumps", line)]
    assert len(rows) == 2
    for row in rows:
        numbers = [float(cell) for cell in row.strip("|").split("|")[1:]]
        assert len(numbers) == 4
        assert numbers[2] >= 0.99


def test_the_docs_it_names_exist():
    for name in re.findall(r"[\w-]+\.md", README):
        assert (ROOT / name).exists() or (ROOT / "docs" / name).exists(), name


def test_links_and_pictures_exist():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


def test_the_loop_is_really_cut_short(few_steps):
    assert rc.training.Paper().total_steps(2000) == 3
