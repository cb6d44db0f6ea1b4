"""What the README shows works as shown."""

import re
from pathlib import Path

import matplotlib
import pytest
from tools.generated_docs import PACKAGES, pages

import recombine as rc
from recombine.cli.app import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICK_START = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")


def examples(page):
    """The Python examples of a page, with narrow networks."""
    return [re.sub(r"width=\d+", "width=4", code) for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL)]


@pytest.fixture
def few_steps(monkeypatch, tmp_path):
    """All recipes, cut to three steps, in an empty folder."""
    original = rc.training.Training.total_steps
    monkeypatch.setattr(rc.training.Training, "total_steps", lambda self, examples: min(3, original(self, examples)))
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    return tmp_path


def test_the_python_example_runs(few_steps):
    [example] = examples(README)
    names: dict = {}
    exec(example, names)
    assert len(example.strip().splitlines()) <= 10
    assert (few_steps / "landscape.png").stat().st_size > 1000
    assert names["run"].scores.summary()["id", "mse"].cells == 495


def test_the_quick_start_runs(few_steps):
    names: dict = {}
    for example in examples(QUICK_START):
        exec(example, names)
    assert [run.seed for run in names["runs"]] == list(range(8))


def test_the_shell_examples_are_valid(few_steps):
    from typer.testing import CliRunner

    commands = [
        line.split("#")[0].split() for line in (README + QUICK_START).splitlines() if line.startswith("recombine ")
    ]
    assert len(commands) >= 4
    for _, *words in commands:
        dry = ["--dry-run"] if words[0] in ("train", "sweep") and "--dry-run" not in words else []
        result = CliRunner().invoke(app, [*words, *dry])
        assert result.exit_code == 0, (words, result.output)


def test_generated_pages_are_up_to_date():
    for page, text in pages().items():
        assert page.read_text(encoding="utf-8") == text, f"run `python -m tools.generated_docs` ({page.name})"


def test_the_tree_names_the_packages():
    tree = re.findall(r"```\n(src/recombine/.*?)```", README, re.DOTALL)[0]
    named = re.findall(r"^(?:  )?(\w+)/", tree, re.MULTILINE)
    assert [name for name in named if name in PACKAGES] == list(PACKAGES)
    assert {path.name for path in (ROOT / "src/recombine").iterdir() if (path / "__init__.py").exists()} == {*PACKAGES}


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 120


def test_the_demo_table_has_numbers():
    rows = [line for line in README.splitlines() if re.match(r"\| bumps", line)]
    assert len(rows) == 3
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
