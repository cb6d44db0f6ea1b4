"""The scene of a data set: pictures by cell, several of them, missing ones, and what a configuration records."""

import json
import shutil

import numpy as np
import pytest
import torch

from recombine.core.datasets import files
from recombine.core.encodings import OneHot
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import HOLDOUTS, data
from recombine.core.scenes import SCENES, Bump, Images
from recombine.core.task import Task
from tests.core.datasets import layouts
from tests.core.datasets.layouts import grid, noise

SIZES = {"colour": 2, "x": 3}
FACTORS = {"colour": ["red", "blue"], "x": 3}
LABELS = grid(SIZES)


@pytest.fixture
def several():
    """Three pictures of the first cell, two of the second, none of the last; the others have one."""
    cells = np.array([0, 1, 2, 3, 4, 0, 1, 0])
    return noise((8, 4, 5)), LABELS[cells], cells


def test_every_cell_shows_its_picture():
    images = noise((6, 4, 5))
    order = np.random.default_rng(0).permutation(6)
    task = Task.from_arrays(images[order], LABELS[order], factors=FACTORS, holdout={"kind": "random", "fraction": 0.2})
    values = task.space.values(torch.arange(6))
    torch.testing.assert_close(task.targets(values), torch.from_numpy(images / 255).float())
    assert task.targets(values.reshape(2, 3, 2).double()).shape == (2, 3, 4, 5)
    assert task.targets(values.double()).dtype == torch.double
    assert task.targets(values[:0]).shape == (0, 4, 5)
    assert task.scene.output_shape == (4, 5)
    assert (task.scene.row_0, task.scene.has_position, task.scene.has_absent) == ("top", False, False)


def test_several_pictures_are_averaged_or_the_nearest_is_taken(several, monkeypatch):
    images, labels, cells = several
    means = torch.stack([torch.from_numpy(images[cells == cell] / 255).float().mean(0) for cell in range(5)])
    given = {"factors": FACTORS, "holdout": [[0, 0, 0], [0, 1, 0]]}
    task = Task.from_arrays(images, labels, **given)
    values = task.space.values(torch.arange(5))
    torch.testing.assert_close(task.targets(values), means)
    monkeypatch.setattr("recombine.core.scenes.images.CHUNK_BYTES", 100)  # a cell at a time
    torch.testing.assert_close(task.targets(values), means)
    near = Task.from_arrays(images, labels, several="nearest", **given).scene
    outputs = torch.from_numpy(images[[5, 6, 2, 3, 4]] / 255).float()
    torch.testing.assert_close(near.target_for(values, outputs + 0.01), outputs)
    torch.testing.assert_close(task.scene.target_for(values, outputs), means)
    torch.testing.assert_close(near(values), means)


def test_cells_without_a_picture_are_unavailable(several):
    images, labels, _ = several
    task = Task.from_arrays(images, labels, factors=FACTORS, holdout=[[0, 0, 0], [0, 1, 0]])
    assert task.holdout.n_unavailable == 1
    assert task.holdout.available_cells.tolist() == [0, 1, 2, 3, 4]
    assert task.holdout.id_cells.tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match=r"no picture of colour=blue, x=2"):
        task.targets(task.space.values(torch.tensor([0, 5])))


def test_factors_cannot_be_left_out():
    task = Task.from_arrays(noise((6, 4, 5)), LABELS, factors=FACTORS, holdout={"kind": "random", "fraction": 0.2})
    values = task.space.values(torch.arange(2))
    task.scene(values, torch.ones(2, 2, dtype=torch.bool))
    with pytest.raises(InputError, match="no single-factor scenes"):
        task.scene(values, torch.tensor([[True, False]] * 2))


def test_the_own_split_is_the_hold_out(several):
    images, labels, _ = several
    split = np.array(["train"] * 8)
    split[[4, 5]] = "test"  # the only picture of cell 4, one of three pictures of cell 0
    task = Task.from_arrays(images, labels, factors=FACTORS, split=split)
    assert task.holdout.ood_cells.tolist() == [4]
    assert task.holdout.id_cells.tolist() == [0, 1, 2, 3]
    assert task.holdout.config == {"kind": "data"}
    with pytest.raises(InputError, match="Choose the combinations to hold out"):
        Task.from_arrays(images, labels, factors=FACTORS)
    with pytest.raises(InputError, match="so labels must be a file as well"):
        Task.from_arrays("images.npy", labels, factors=FACTORS)
    whole = [[0, 0, 0], [1, 0, 0]]  # would train on cell 4
    with pytest.raises(InputError, match="are never trained on, and 1 trained cells"):
        Task.from_arrays(images, labels, factors=FACTORS, split=split, holdout=whole)
    merged = Task.from_arrays(images, labels, factors=FACTORS, split=split, holdout=whole, own_split=False)
    assert merged.scene.trained_pictures(merged.holdout).tolist() == [0, 5, 7, 1, 6, 2, 4]
    assert task.scene.trained_pictures(task.holdout).tolist() == [0, 7, 1, 6, 2, 3]
    plane = FactorSpace(x=3, y=3)
    with pytest.raises(InputError, match="train/test split"):
        Task(Bump(plane), OneHot(plane), data(plane))
    with pytest.raises(InputError, match="cannot be combined with others"):
        (data(plane) | HOLDOUTS.build({"kind": "random"}, plane)).mask  # noqa: B018


def test_hold_outs_are_given_as_they_come():
    images = noise((6, 4, 5))
    mask = np.zeros((2, 3), dtype=bool)
    mask[1, 2] = True
    for given in (
        mask,
        mask.tolist(),
        torch.from_numpy(mask),
        {"kind": "mask", "lengths": [5, 1]},
        lambda space: HOLDOUTS.build({"kind": "mask", "lengths": [5, 1]}, space),
    ):
        assert Task.from_arrays(images, LABELS, factors=FACTORS, holdout=given).holdout.ood_cells.tolist() == [5]
    with pytest.raises(InputError, match="A hold-out must be one of"):
        Task.from_arrays(images, LABELS, factors=FACTORS, holdout=3)


def ranged(images, value_range=None):
    held = [{"colour": "red", "x": 2}]
    return Task.from_arrays(images, LABELS, factors=FACTORS, holdout=held, value_range=value_range)


def test_pictures_lie_in_the_stated_range():
    """[0, 1] unless the user says otherwise; vectors may have any."""
    images = noise((6, 4, 5)) / 127.5 - 1
    scene = ranged(images, (-1.0, 1.0)).scene
    assert scene.value_range == (-1.0, 1.0)
    assert torch.equal(scene(scene.space.values(torch.tensor([4]))), torch.from_numpy(images[4:5].astype(np.float32)))
    vectors = 10 * images.reshape(6, -1)
    assert ranged(vectors).scene.value_range == (vectors.min(), vectors.max())
    for given, value_range, advice in (
        (images, None, "value_range=["),
        (noise((6, 4, 5)).astype(float), None, "scale=255"),
        (images, (-0.5, 1.0), "value_range=["),
        (vectors, (0.0, 1.0), "value_range=["),
        (images, (1.0, -1.0), "[lowest, highest]"),
    ):
        with pytest.raises(InputError) as caught:
            ranged(given, value_range)
        assert caught.value.problems[0].key == "scene.value_range"
        assert advice in str(caught.value)


def test_a_range_names_a_scene_only_if_it_is_given():
    images = noise((6, 4, 5)) / 255
    assert "value_range" not in SCENES.identity(ranged(images).scene.config)
    assert SCENES.identity(ranged(images, (0.0, 2.0)).scene.config)["value_range"] == [0.0, 2.0]


def test_arrays_are_read_from_files_where_they_are(tmp_path):
    written = layouts.arrays(tmp_path)
    task = Task.from_arrays(
        tmp_path / "images.npy", tmp_path / "labels.npy", factors=list(written.sizes), holdout={"kind": "random"}
    )
    assert task.scene.config["data"]["images"] == str(tmp_path / "images.npy")
    torch.testing.assert_close(
        task.targets(task.space.values(torch.arange(24))), torch.from_numpy(written.pictures).float()
    )
    with pytest.raises(InputError, match="labels must be a file"):
        Task.from_arrays(tmp_path / "images.npy", LABELS)


@pytest.mark.parametrize("layout", layouts.LAYOUTS)
def test_a_configuration_records_what_rebuilds_the_scene(layout, tmp_path):
    written = layouts.LAYOUTS[layout](tmp_path)
    name = [name for name, size in written.sizes.items() if size > 1][-1]
    given = {"kind": "images", "data": written.data, "keep": {name: "0:2"}}
    config, factors = Images.completed(given, None)
    space = FactorSpace.from_config(json.loads(json.dumps(factors)))
    scene = SCENES.build(json.loads(json.dumps(config)), space)
    again = SCENES.build(json.loads(json.dumps(scene.config)), space)
    values = space.values(torch.arange(len(space)))
    assert torch.equal(scene(values), again(values))
    assert Images.completed(config, factors) == (config, factors)  # nothing is read again
    assert set(config["sha256"]) == set(scene.dataset.sha256)


def test_only_the_content_names_a_scene(tmp_path):
    """The path is no part of the identity; the checksum and the values kept are."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    layouts.arrays(here)
    shutil.copytree(here, there)
    names = ["colour", "size", "x"]

    def identity(folder, **more):
        data = {"kind": "arrays", "images": str(folder / "images.npy"), "labels": str(folder / "labels.npy"),
                "names": names}  # fmt: skip
        config, factors = Images.completed({"kind": "images", "data": data, **more}, None)
        return SCENES.identity(config), factors

    first = identity(here)
    assert identity(there) == first
    assert str(tmp_path) not in json.dumps(first)
    assert identity(there, keep={"x": [0, 1]}) != first
    np.save(there / "images.npy", layouts.noise((24, 5, 5, 3), seed=1))
    assert identity(there) != first


def test_declared_factors_outlive_subsampling(tmp_path):
    np.save(tmp_path / "images.npy", noise((6, 4, 5)))
    np.save(tmp_path / "labels.npy", LABELS)
    data = {"kind": "arrays", "images": str(tmp_path / "images.npy"), "labels": str(tmp_path / "labels.npy")}
    config, factors = Images.completed({"kind": "images", "data": data, "keep": {"x": [0, 2]}}, FACTORS)
    assert factors == {"colour": ["red", "blue"], "x": {"kind": "discrete", "size": 2, "low": 0.0, "step": 2.0}}
    assert config["all_factors"] == FACTORS
    scene = SCENES.build(config, FactorSpace.from_config(factors))
    assert scene.dataset.cells.tolist() == [0, 1, 2, 3]
    one, left = Images.completed({"kind": "images", "data": data, "keep": {"colour": ["blue"]}}, FACTORS)
    assert left == {"x": 3}
    assert SCENES.build(one, FactorSpace(x=3)).dataset.fixed == {"colour": "blue"}


def test_a_file_that_changed_since_is_refused(tmp_path, monkeypatch):
    written = layouts.dsprites(tmp_path)
    config, factors = Images.completed({"kind": "images", "data": written.data["file"]}, None)
    layouts.dsprites(tmp_path, compressed=False)
    monkeypatch.setattr(files, "_seen", {})
    with pytest.raises(InputError, match="changed after its checksum was recorded"):
        SCENES.build(config, FactorSpace.from_config(factors))
    assert Images.completed({**config, "sha256": None}, None)[0]["sha256"] != config["sha256"]


@pytest.mark.parametrize(
    ("given", "factors", "key"),
    [
        ({}, None, "scene.data"),
        ({"data": 3}, None, "scene.data"),
        ({"data": "DSPRITES", "keep": [1]}, None, "scene.keep"),
        ({"data": "DSPRITES"}, {"x": 3, "y": 2}, "scene.factors"),
        ({"data": "DSPRITES", "keep": {"z": [0]}}, None, "keep.z"),
    ],
)
def test_bad_configurations_are_explained(tmp_path, given, factors, key):
    path = layouts.dsprites(tmp_path).data["file"]
    config = {"kind": "images", **{k: path if v == "DSPRITES" else v for k, v in given.items()}}
    with pytest.raises(InputError) as caught:
        Images.completed(config, factors)
    assert caught.value.key == key


def test_a_space_that_is_not_that_of_the_data_is_refused(tmp_path):
    written = layouts.dsprites(tmp_path)
    with pytest.raises(InputError, match="The factors of the data are"):
        Images(FactorSpace(x=3, y=2), written.data)
