"""`recombine data show` and `recombine data unpack`: what they print, draw and write; bad files write nothing."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from recombine.cli.app import app
from recombine.core.data_task import dataset_of
from recombine.core.datasets import open_dataset
from recombine.plotting.contact_sheet import contact_sheet
from tests.core.datasets import layouts

pytestmark = pytest.mark.quick


@pytest.fixture
def called(tmp_path, monkeypatch):
    """Runs the command in an empty folder beside the data."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def call(*words: str, code: int = 0):
        result = CliRunner().invoke(app, ["data", *words])
        assert result.exit_code == code, result.output
        return result

    return call


@pytest.mark.parametrize("layout", layouts.LAYOUTS)
def test_show_prints_the_factors_and_draws_a_contact_sheet(layout, called, tmp_path):
    (tmp_path / "data").mkdir()
    written = layouts.LAYOUTS[layout](tmp_path / "data")
    path = written.data.get("file") or written.data.get("folder") or written.data["images"]
    settings = [f"{key}={json.dumps(written.data[key])}" for key in ("labels", "names") if key in written.data]
    facts = json.loads(called("show", path, *settings, "--json").stdout)
    assert facts["pictures"] == len(written.pictures)
    assert {row["factor"]: row["size"] for row in facts["factors"]} == {n: s for n, s in written.sizes.items() if s > 1}
    assert facts["unavailable"] == 0
    assert facts["test_pictures"] == (None if written.is_test is None else written.is_test.sum())
    assert Path(facts["figure"]).read_bytes().startswith(b"\x89PNG")
    printed = called("show", path, *settings, "--figure", "sheet.png").stdout
    for name in (n for n, size in written.sizes.items() if size > 1):
        assert name in printed
    assert all(sha256 in printed for sha256 in facts["sha256"].values())
    assert Path("sheet.png").is_file()


def test_show_a_part(called, tmp_path):
    path = layouts.dsprites(tmp_path).data["file"]
    facts = json.loads(called("show", path, "keep.shape=heart", "keep.x=::2", "drop_repeated=true", "--json").stdout)
    assert facts["keep"] == {"shape": [2], "x": [0, 2]}
    assert facts["fixed"] == {"colour": "white", "shape": "heart"}
    assert {row["factor"]: row["kind"] for row in facts["factors"]}["orientation"] == "cyclic"


@pytest.mark.parametrize("layout", ["dsprites", "shapes3d", "mpi3d, compressed", "schott", "folder"])
def test_the_unpacked_copy_holds_the_same(layout, called, tmp_path):
    written = layouts.LAYOUTS[layout](tmp_path)
    path = written.data.get("file") or written.data["folder"]
    data = json.loads(called("unpack", path, "copy.npy", "--json").stdout)["data"]
    original, copy = open_dataset(written.data), open_dataset(data)
    assert copy.picture_shape == original.picture_shape
    assert copy.scale == original.scale
    assert np.load("copy.npy", mmap_mode="r").shape == original.source.shape
    numbers = torch.arange(len(original))
    assert torch.equal(copy.pictures(numbers), original.pictures(numbers))
    assert copy.space.shape == original.space.shape
    for name, factor in original.space.factors.items():
        assert sorted(copy.space.factors[name].labels) == sorted(factor.labels)
    if written.is_test is not None:
        np.testing.assert_array_equal(copy.is_test, original.is_test)


def test_unpack_overwrites_nothing_and_leaves_nothing_half_done(called, tmp_path):
    path = Path(layouts.dsprites(tmp_path).data["file"])
    Path("copy.csv").write_text("mine")
    called("unpack", str(path), "copy.npy", code=2)
    called("unpack", str(path), "copy.txt", code=2)
    content = bytearray(path.read_bytes())
    content[2000:2040] = bytes(40)  # within the pictures
    path.write_bytes(content)
    called("unpack", str(path), "other.npy", code=2)
    assert [entry.name for entry in Path().iterdir()] == ["copy.csv"]


@pytest.mark.parametrize(
    "words",
    [
        ("show", "nothing.npz"),
        ("show", "/dev/null"),
        ("show", "DATA", "nonsense"),
        ("show", "DATA", "keep.z=0"),
        ("show", "DATA", "labels=x.npy"),
        ("unpack", "nothing.npz", "out.npy"),
    ],
)
def test_bad_input_ends_with_code_2_and_writes_nothing(called, tmp_path, words):
    path = layouts.dsprites(tmp_path).data["file"]
    result = called(*(path if word == "DATA" else word for word in words), code=2)
    assert result.stderr.startswith("error: ")
    assert list(Path().iterdir()) == []


def test_the_advice_for_labels_without_names_works(called):
    np.savez("plain.npz", images=np.zeros((4, 3, 3), np.uint8), labels=[[0, 0], [0, 1], [1, 0], [1, 1]])
    assert "names=[colour,shape]" in called("show", "plain.npz", code=2).output.replace("\n", " ")
    facts = json.loads(called("show", "plain.npz", "names=[colour,shape]", "--json").stdout)
    assert [row["factor"] for row in facts["factors"]] == ["colour", "shape"]


def test_pickled_labels_are_refused_with_what_to_save(called):
    np.savez("pickled.npz", images=np.zeros((2, 3, 3), np.uint8), labels=np.array(["red", None], dtype=object))
    told = " ".join(called("show", "pickled.npz", code=2).output.split())
    assert "pickled object array, which is never loaded" in told
    assert "return_inverse=True" in told


def test_a_missing_combination_is_hatched():
    labels = np.array([[0, 0], [0, 1], [1, 1], [2, 0], [2, 1]])
    dataset = dataset_of(np.zeros((5, 3, 3), np.uint8), labels, ["x", "y"], None, None)
    figure = contact_sheet(dataset)
    hatched = [sum(patch.get_hatch() is not None for patch in ax.patches) for ax in figure.axes]
    assert hatched == [0, 1]  # the middle picture is (1, 1), and (1, 0) does not exist
