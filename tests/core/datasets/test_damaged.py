"""Foreign, damaged and inconsistent files are named, each with what is wrong."""

from pathlib import Path

import numpy as np
import pytest

from recombine.core.datasets import open_dataset
from recombine.core.errors import InputError
from tests.core.datasets import layouts


def refused(data, *parts: str) -> None:
    with pytest.raises(InputError) as caught:
        open_dataset(data)
    for part in parts:
        assert part in str(caught.value)


def test_unknown_files(tmp_path):
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    (tmp_path / "text.txt").write_text("hello")
    refused(tmp_path / "other.npz", "no known layout", "weights")
    refused(tmp_path / "text.txt", "no known layout", "dSprites")
    refused(tmp_path / "nothing.npz", "There is no file")
    refused(tmp_path / "nothing.xyz", "There is no file")
    refused(tmp_path / "nothing.h5", "There is no file")
    refused({"kind": "dsprites", "file": str(tmp_path / "other.npz")}, "missing: imgs")
    refused({"kind": "mpi3d", "file": str(tmp_path / "other.npz")}, "'images' is missing")
    refused({"kind": "schott", "file": str(tmp_path / "other.npz")}, "not named like")
    refused({"kind": "arrays", "images": str(tmp_path / "other.npz"), "labels": str(tmp_path / "text.txt")}, "text.txt")
    refused({"kind": "sprites"}, "There is no data set of kind 'sprites'")


@pytest.mark.parametrize("layout", ["dsprites", "shapes3d", "mpi3d", "schott"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "web page"])
def test_damaged_downloads(tmp_path, layout, damage):
    data = layouts.LAYOUTS[layout](tmp_path).data
    path = Path(data["file"])
    content = path.read_bytes()
    replaced = {"truncated": content[: len(content) // 2], "empty": b"", "web page": b"<html>404</html>"}
    path.write_bytes(replaced[damage])
    refused(data, str(path))


def test_dsprites_labels_that_do_not_belong(tmp_path):
    written = layouts.dsprites(tmp_path)
    with np.load(written.data["file"]) as file:
        arrays = {name: file[name] for name in ("imgs", "latents_classes", "latents_values")}
    for name, changed, message in (
        ("imgs", arrays["imgs"][:-1], "must have one row per picture"),
        ("latents_values", arrays["latents_values"][::-1], "do not match its classes"),
        ("latents_classes", arrays["latents_classes"] - 1, "integers starting at 0"),
        ("latents_classes", arrays["latents_classes"].astype(float), "integers starting at 0"),
    ):
        np.savez(written.data["file"], **{**arrays, name: changed})
        refused(written.data, message)


def test_schott_labels_that_do_not_belong(tmp_path):
    written = layouts.schott(tmp_path)
    np.savez(tmp_path / "dsprites_composition_test_labels.npz", np.zeros((3, 5)))
    refused(written.data, "do not belong together")
    np.savez(tmp_path / "dsprites_composition_test_labels.npz", other=np.zeros((8, 5)))
    refused(written.data, "no array 'arr_0'")


def test_h5_files_that_reach_out_are_refused(tmp_path):
    import h5py

    written = layouts.shapes3d(tmp_path)
    for name in ("external link", "external storage", "virtual", "missing", "other shape", "not written"):
        with h5py.File(tmp_path / "bad.h5", "w") as file:
            file["labels"] = np.zeros((4, 6))
            if name == "external link":
                file["images"] = h5py.ExternalLink(written.data["file"], "images")
            elif name == "external storage":
                outside = [(written.data["file"], 0, 4 * 5 * 5 * 3)]
                file.create_dataset("images", (4, 5, 5, 3), np.uint8, external=outside)
            elif name == "virtual":
                layout = h5py.VirtualLayout((4, 5, 5, 3), np.uint8)
                layout[:] = h5py.VirtualSource(written.data["file"], "images", (192, 5, 5, 3))[:4]
                file.create_virtual_dataset("images", layout)
            elif name == "other shape":
                file["images"] = np.zeros((4, 5, 5))
            elif name == "not written":
                file.create_dataset("images", (480000, 64, 64, 3), np.uint8, chunks=True)
        refused({"kind": "shapes3d", "file": str(tmp_path / "bad.h5")}, "bad.h5")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("", "CSV file"),
        ("file,x\n", "a header but no labels"),
        ("name,x\na.png,1\n", "no column 'file'"),
        ("file\na.png\n", "no column with labels"),
        ("file,x\na.png\n", "Line 2"),
        ("file,x,x\na.png,1,1\n", "distinct column names"),
        ("file,x\n../a.png,1\n", "must not leave the folder"),
        ("file,x\n/etc/passwd,1\n", "must not leave the folder"),
        ("file,x\nmissing.png,1\n", "There is no file"),
        ("file,x\ntext.png,1\n", "cannot be read as PNG or JPEG"),
        ("file,x,split\na.png,1,validation\n", "train or test"),
        ("file,x\nhalf.png,1\na.png,2\n", "cannot be decoded"),
        ("file,x\ndeep.png,1\n", "8 bits per channel"),
    ],
)
def test_bad_folders_are_explained(tmp_path, labels, message):
    from PIL import Image

    picture = Image.fromarray(layouts.noise((40, 40)))
    picture.save(tmp_path / "a.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "a.png").read_bytes()[:800])
    (tmp_path / "text.png").write_text("no picture")
    Image.fromarray(np.zeros((40, 40), dtype=np.uint16)).save(tmp_path / "deep.png")
    (tmp_path / "labels.csv").write_text(labels)
    refused(tmp_path, message)


def test_pictures_too_large_to_be_meant_are_not_decoded(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.setattr("recombine.core.datasets.folder.MOST_PIXELS", 100)
    Image.new("L", (11, 10)).save(tmp_path / "a.png")
    (tmp_path / "labels.csv").write_text("file,x\na.png,1\n")
    refused(tmp_path, "11×10 pixels. The maximum is 100")
