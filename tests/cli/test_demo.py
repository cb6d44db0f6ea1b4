"""The demo, with a decoder small enough for a test."""

import json

import matplotlib.image
import pytest

from recombine.cli import demo
from recombine.core.errors import StoreError


@pytest.fixture
def small(monkeypatch):
    mlp = ["decoder.kind=mlp", "decoder.width=32", "training.kind=recommended", "training.steps=30"]
    other = [
        "decoder.kind=mlp",
        "decoder.width=16",
        "encoding.kind=onehot",
        "training.kind=recommended",
        "training.steps=30",
    ]
    stripes = [*mlp, "training.examples.single_factor={}"]
    monkeypatch.setattr(demo, "MODELS", {"bumps": mlp, "bumps + stripes": stripes, "composed": other})


def test_it_writes_a_picture_a_table_and_runs(small, tmp_path):
    result = demo.demo(tmp_path, seed=1)
    table = json.loads(result.table.read_text())
    assert table["seed"] == 1
    assert len(table["models"]) == 3
    for row in table["models"]:
        assert 0 <= row["ood_localization"] <= 1
        assert (tmp_path / "runs" / row["run"] / "run.json").is_file()
    assert table["models"][0]["ood_mse"] != table["models"][1]["ood_mse"]
    picture = matplotlib.image.imread(result.figure)
    assert picture.shape[0] > 400
    assert picture.std() > 0.1  # something is drawn
    page = result.page.read_text(encoding="utf-8")
    assert all(title in page for title in demo.TITLES.values())


def test_a_second_time_it_only_draws(small, tmp_path, monkeypatch):
    first = demo.demo(tmp_path)
    first.figure.unlink()
    monkeypatch.setattr("recombine.runs.training.run_seeds", lambda *a, **k: pytest.fail("trained again"))
    assert demo.demo(tmp_path).rows() == first.rows()
    assert first.figure.exists()


def test_a_picture_that_cannot_be_written_is_an_error_of_ours(small, tmp_path):
    (tmp_path / "demo.png").mkdir()
    with pytest.raises(StoreError, match=r"Could not write .*demo\.png"):
        demo.demo(tmp_path)


def test_the_shown_cells_are_two_trained_and_four_held_out():
    task = demo.configs(0)["bumps"].task()
    import torch

    held = task.holdout.contains(torch.tensor(demo.SHOWN, dtype=torch.float))
    assert held.tolist() == [False, False, True, True, True, True]
