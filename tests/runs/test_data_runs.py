"""Runs on data files: named by content, found after a move, refused after a change, listed without the data."""

import json
import os
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from recombine.cli.app import app
from recombine.core.datasets import dataset, files
from recombine.core.errors import InputError
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from tests.core.datasets import layouts

SMALL = ["decoder.kind=mlp", "decoder.depth=1", "decoder.width=8", "encoding.kind=onehot", "training.kind=recommended",
         "training.steps=3", "holdout.kind=random"]  # fmt: skip


@pytest.fixture(autouse=True)
def another_process(monkeypatch):
    """Nothing is remembered of files that other tests opened."""
    forget()
    yield
    forget()


def forget() -> None:
    files._known.clear()
    files._seen.clear()
    dataset._open.clear()


@pytest.fixture
def place(tmp_path):
    (tmp_path / "data").mkdir()
    layouts.arrays(tmp_path / "data")
    return tmp_path / "data"


def words(place, *more: str) -> list[str]:
    data = {"kind": "arrays", "images": str(place / "images.npy"), "labels": str(place / "labels.npy"),
            "names": ["colour", "size", "x"]}  # fmt: skip
    return ["scene.kind=images", f"scene.data={json.dumps(data)}", *SMALL, *more]


def test_a_configuration_finds_factors_and_checksums(place):
    config = RunConfig.parse(words(place))
    assert config.scene["factors"] == {"colour": 3, "size": 2, "x": 4}
    assert set(config.scene["sha256"]) == {"images", "labels"}
    again = RunConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert again.hash == config.hash
    assert RunConfig.parse(words(place, "scene.keep.x=0:2")).hash != config.hash
    assert (
        RunConfig.parse(words(place, "scene.keep.x=0:2")).hash
        == RunConfig.parse(words(place, "scene.keep.x=[0,1]")).hash
    )


def test_a_path_alone_is_enough_for_a_known_layout(tmp_path):
    path = layouts.dsprites(tmp_path).data["file"]
    config = RunConfig.parse(["scene.kind=images", f"scene.data={path}", "scene.keep.shape=[0,2]", *SMALL])
    assert list(config.scene["factors"]) == ["shape", "scale", "orientation", "x", "y"]
    assert config.scene["factors"]["shape"] == ["square", "heart"]
    assert config.task().scene.output_shape == (5, 5)


def test_a_stored_configuration_is_read_without_the_data(place):
    config = RunConfig.parse(words(place))
    shutil.rmtree(place)
    assert RunConfig.from_dict(config.to_dict()).hash == config.hash
    with pytest.raises(InputError, match="There is no file"):
        config.task()


def test_a_moved_file_is_the_same_run(place, tmp_path, monkeypatch):
    store = Store(tmp_path / "runs")
    [run] = store.train([RunConfig.parse(words(place))])
    moved = tmp_path / "moved"
    shutil.move(place, moved)
    forget()
    config = RunConfig.parse(words(moved))
    assert config.hash == run.config.hash
    written: list[str] = []
    [again] = store.train([config], written=written)
    assert written == []
    assert len(again.task.scene.dataset) == 24  # found where this process saw it
    forget()
    with pytest.raises(InputError, match="RECOMBINE_DATA"):
        store.load(run.id).task  # noqa: B018
    monkeypatch.setenv("RECOMBINE_DATA", str(moved))
    assert len(store.load(run.id).task.scene.dataset) == 24


def test_a_changed_file_is_another_run(place, tmp_path):
    store = Store(tmp_path / "runs")
    [run] = store.train([RunConfig.parse(words(place))])
    np.save(place / "images.npy", layouts.noise((24, 5, 5, 3), seed=1))
    forget()
    with pytest.raises(InputError, match="changed after its checksum was recorded"):
        store.load(run.id).task  # noqa: B018
    assert RunConfig.parse(words(place)).hash != run.config.hash


def test_runs_are_listed_without_the_data(place, tmp_path):
    store = Store(tmp_path / "runs")
    [run] = store.train([RunConfig.parse(words(place))])
    shutil.rmtree(place)
    forget()
    [row] = Store(tmp_path / "runs").list()
    assert row.status.finished
    assert store.load(run.id).summary == run.summary


def test_scores_are_read_without_the_data(place, tmp_path):
    store = Store(tmp_path / "runs")
    [run] = store.train([RunConfig.parse(words(place))])
    before = run.scores.summary()["ood", "mse"]
    shutil.rmtree(place)
    forget()
    assert store.load(run.id).scores.summary()["ood", "mse"] == before


def test_training_goes_on_from_a_checkpoint_only_with_the_same_data(place, tmp_path):
    """The fingerprint of a checkpoint contains the checksums."""
    from recombine.training.fingerprint import settings

    first = settings(RunConfig.parse(words(place)).task().scene)
    np.save(place / "images.npy", layouts.noise((24, 5, 5, 3), seed=1))
    assert settings(RunConfig.parse(words(place)).task().scene) != first


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda place: ["scene.data=nothing.npz"], ""),
        (lambda place: ["scene.data=[1]"], "scene.data"),
        (lambda place: ["scene.keep.z=0"], "keep.z"),
        (lambda place: ["scene.sevral=mean"], "scene.sevral"),
        (lambda place: [f"scene.data.labels={place / 'short.npy'}"], ""),
        (lambda place: ["scene.factors.colour=2", "scene.factors.size=2", "scene.factors.x=4"], "colour"),
        (lambda place: ['scene.data.names=["colour"]'], ""),
        (lambda place: ["holdout.kind=data"], "holdout.kind"),
    ],
)
def test_bad_data_end_with_code_2_and_write_nothing(place, tmp_path, monkeypatch, change, key):
    from typer.testing import CliRunner

    from recombine.cli.app import app

    np.save(place / "short.npy", np.zeros((23, 3), dtype=int))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    result = CliRunner().invoke(app, ["train", *words(place), *change(place)])
    assert result.exit_code == 2, result.output
    assert os.listdir() == []
    with pytest.raises(InputError) as caught:
        RunConfig.parse([*words(place), *change(place)]).check()
    assert key in {problem.key for problem in caught.value.problems}


def test_incomplete_data_go_the_whole_way(place, tmp_path):
    """A combination without a picture: trained, scored, diagnosed and reported without it."""
    from recombine.report.collect import collect
    from recombine.report.page import write_report

    for name in ("images", "labels"):
        np.save(place / f"{name}.npy", np.load(place / f"{name}.npy")[:-1])
    [run] = Store(tmp_path / "runs").train([RunConfig.parse(words(place))])
    assert run.scores.split.tolist().count("unavailable") == 1
    found = run.diagnose(parts=["outputs", "errors", "superposition"], progress=False)
    assert found["errors"].computed
    collected = collect([str(run.path)], runs=tmp_path / "runs")
    assert write_report(collected, tmp_path / "page.html").megabytes > 0


def test_a_report_on_changed_data_shows_the_other_runs_or_nothing(place, tmp_path):
    store, page = Store(tmp_path / "runs"), tmp_path / "page.html"
    [changed] = store.train([RunConfig.parse(words(place))])
    np.save(place / "images.npy", layouts.noise((24, 5, 5, 3), seed=1))
    forget()
    for what in (store.root, changed.path):
        result = CliRunner().invoke(app, ["report", str(what), "--diagnose", "-o", str(page)])
        assert result.exit_code == 2
        assert "Restore the file" in result.output
        assert not page.exists()
    [whole] = store.train([RunConfig.parse(words(place))])
    result = CliRunner().invoke(app, ["report", str(store.root), "--diagnose", "-o", str(page)])
    assert result.exit_code == 0
    assert f"Run {changed.id} is not in the explorer" in result.output
    assert whole.id in page.read_text()
