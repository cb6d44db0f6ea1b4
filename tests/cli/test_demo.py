"""The demo, with a decoder small enough for a test."""

import json
import shutil

import matplotlib.image
import pytest

from recombine.cli import demo
from recombine.core.errors import StoreError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a demo, and its result. Its networks are small."""
    small = ["decoder.kind=mlp", "training.kind=recommended", "training.steps=30"]
    bumps, other = [*small, "decoder.width=32"], [*small, "decoder.width=16", "encoding.kind=onehot"]
    models = {"bumps": bumps, "bumps + stripes": [*bumps, "training.examples.single_factor={}"], "composed": other}
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "MODELS", models)
        yield folder, demo.demo(folder, seed=1)


@pytest.fixture
def again(made, tmp_path):
    """A copy of the folder, for tests that change it."""
    return shutil.copytree(made[0], tmp_path / "again")


def test_it_writes_a_picture_a_table_and_runs(made):
    folder, result = made
    table = json.loads(result.table.read_text())
    assert table["seed"] == 1
    assert len(table["models"]) == 3
    for row in table["models"]:
        assert 0 <= row["ood_localization"] <= 1
        assert (folder / "runs" / row["run"] / "run.json").is_file()
    assert table["models"][0]["ood_mse"] != table["models"][1]["ood_mse"]
    picture = matplotlib.image.imread(result.figure)
    assert picture.shape[0] > 400
    assert picture.std() > 0.1  # something is drawn
    page = result.page.read_text(encoding="utf-8")
    assert all(title in page for title in demo.TITLES.values())


def test_a_second_time_it_only_draws(made, again, monkeypatch):
    (again / "demo.png").unlink()
    monkeypatch.setattr("recombine.runs.training.run_seeds", lambda *a, **k: pytest.fail("trained again"))
    result = demo.demo(again, seed=1)
    assert result.rows() == made[1].rows()
    assert result.figure.exists()


def test_a_picture_that_cannot_be_written_is_an_error_of_ours(again):
    (again / "demo.png").unlink()
    (again / "demo.png").mkdir()
    with pytest.raises(StoreError, match=r"Could not write .*demo\.png"):
        demo.demo(again, seed=1)


def test_the_shown_cells_are_two_trained_and_four_held_out():
    task = demo.configs(0)["bumps"].task()
    import torch

    held = task.holdout.contains(torch.tensor(demo.SHOWN, dtype=torch.float))
    assert held.tolist() == [False, False, True, True, True, True]
