"""What docs/your-data.md shows works as shown."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import recombine as rc
from recombine.cli.app import app
from recombine.core.datasets import DATASETS

GUIDE = (Path(__file__).parents[2] / "docs" / "your-data.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
COMMANDS = [line.split() for block in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL) for line in block.splitlines()]
[YAML] = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, recipes cut to a few steps, and diagnoses to the parts that are quick."""
    monkeypatch.chdir(tmp_path)
    of_run = rc.Run.diagnose
    quick = {"parts": ["outputs", "errors", "superposition"], "progress": False}
    monkeypatch.setattr(rc.Run, "diagnose", lambda self, **options: of_run(self, **{**quick, **options}))
    original = rc.training.Training.total_steps
    monkeypatch.setattr(rc.training.Training, "total_steps", lambda self, examples: min(30, original(self, examples)))
    return tmp_path


@pytest.mark.long
def test_the_first_example_learns_and_prints_what_is_shown(folder, monkeypatch, capsys):
    monkeypatch.undo()  # all steps
    monkeypatch.chdir(folder)
    of_run = rc.Run.diagnose
    monkeypatch.setattr(rc.Run, "diagnose", lambda self: of_run(self, parts=["errors", "superposition"]))
    names: dict = {}
    exec("\n".join(EXAMPLES[:2]).replace('run.report("page.html")', ""), names)
    [shown] = re.findall(r"```text\n( +ID.*?)```", GUIDE, re.DOTALL)
    printed = capsys.readouterr().out
    assert names["run"].scores.summary()["id", "relative_error"].mean < 0.01
    assert [line.split()[0] for line in shown.splitlines() if "…" not in line] == ["ID", "mse", "relative_error"]
    assert shown.splitlines()[-1].removesuffix("…") in printed


def test_the_python_examples_run(folder):
    names: dict = {}
    tasks = []
    for example in EXAMPLES:
        exec(example, names)
        tasks.append(names.get("task"))
    made, whole, several, dataset, pictures = tasks
    assert made is None
    assert (whole.holdout.n_id, whole.holdout.n_ood) == (30, 6)
    assert whole.scene.output_shape == (3, 12, 12)
    assert names["run"].diagnosis["errors"].computed
    assert Path("page.html").stat().st_size > 10_000
    assert several.holdout.n_unavailable > 0
    assert several.scene.shows_several
    assert dataset.holdout.n_ood == 7
    assert np.array_equal(pictures.holdout.n_ood, 6)


def test_arrays_to_a_page_take_at_most_twelve_lines():
    assert len(EXAMPLES[1].strip().splitlines()) <= 12


def test_the_same_by_one_file_and_two_commands(folder):
    exec(EXAMPLES[0], {})
    Path("experiment.yaml").write_text(YAML)
    for _, *words in COMMANDS[:2]:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    assert "mlp(2, 64), onehot code: The model has not learnt" in result.output
    assert Path("page.html").stat().st_size > 10_000
    assert len(COMMANDS) == 4


def test_the_data_commands_run(folder):
    names: dict = {}
    for example in (EXAMPLES[0], EXAMPLES[2], EXAMPLES[-1]):
        exec(example, names)
    np.savez_compressed("images.npz", images=names["images"], labels=names["labels"])
    for _, *words in COMMANDS[2:]:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    assert Path("pictures.png").is_file()
    assert Path("unpacked.csv").is_file()


@pytest.mark.parametrize("layout", sorted(set(DATASETS.components) - {"memory"}))
def test_every_layout_is_listed(layout):
    assert f"| `{layout}` |" in GUIDE
