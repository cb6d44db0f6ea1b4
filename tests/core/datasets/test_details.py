"""What single layouts promise beyond the contract."""

import math

import numpy as np
import pytest
import torch

from recombine.core.datasets import open_dataset
from recombine.core.datasets.labels import inferred
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, categorical, cyclic, discrete
from tests.core.datasets import layouts


def test_dsprites_orientation_that_repeats_can_be_dropped(tmp_path):
    data = layouts.dsprites(tmp_path).data
    whole, dropped = open_dataset(data), open_dataset({**data, "drop_repeated": True})
    assert whole.space.factors["shape"] == categorical(["square", "ellipse", "heart"])
    assert whole.space.factors["orientation"].size == 5
    assert dropped.space.factors["orientation"] == cyclic(2 * math.pi, 4)
    assert len(dropped) == len(whole) * 4 // 5
    same = torch.from_numpy(np.flatnonzero(whole.positions[:, 2] < 4))
    assert torch.equal(dropped.pictures(torch.arange(len(dropped))), whole.pictures(same))


def test_a_cyclic_factor_stays_so_if_it_is_thinned_evenly(tmp_path):
    data = {**layouts.dsprites(tmp_path).data, "drop_repeated": True}
    even = open_dataset(data, keep={"orientation": "::2"}).space.factors["orientation"]
    uneven = open_dataset(data, keep={"orientation": [0, 1]}).space.factors["orientation"]
    assert even == cyclic(2 * math.pi, 2)
    assert uneven == discrete([0.0, math.pi / 2])


@pytest.mark.parametrize(
    ("count", "colours"), [(6 * 6 * 2 * 3 * 3 * 40 * 40, 6), (4 * 4 * 2 * 3 * 3 * 40 * 40, 4), (1000, None)]
)
def test_mpi3d_sizes_follow_from_the_number_of_pictures(tmp_path, count, colours):
    np.savez_compressed(tmp_path / "mpi3d.npz", images=np.zeros((count, 1, 1, 3), dtype=np.uint8))
    if colours is None:
        with pytest.raises(
            InputError, match=r"has 1000 pictures, but MPI3D has 1036800 and its complex variant 460800"
        ):
            open_dataset(tmp_path / "mpi3d.npz")
        return
    dataset = open_dataset(tmp_path / "mpi3d.npz", keep={"vertical_axis": "::20", "horizontal_axis": "::20"})
    assert dataset.space.shape == (colours, colours, 2, 3, 3, 2, 2)
    assert len(dataset) == count // 400
    assert dataset.space.factors["object_color"].labels[1] == "green"


def test_schott_files_alone_define_the_split(tmp_path):
    written = layouts.schott(tmp_path)
    dataset = open_dataset(tmp_path / "dsprites_composition_test_labels.npz")  # any of the four
    held = dataset.test_cells
    assert held.shape == dataset.space.shape == (3, 2, 2, 3, 2)
    assert held[0, :, :, 2].all()
    assert held.sum() == 8 == written.is_test.sum()
    (tmp_path / "dsprites_composition_test_images.npz").unlink()
    with pytest.raises(InputError, match=r"dsprites_composition_test_images\.npz"):
        open_dataset(written.data)


def test_labels_as_numbers_texts_or_a_table(tmp_path):
    np.save(tmp_path / "images.npy", layouts.noise((4, 3, 3)))
    lines = ["colour,size,split", "red,0.7,train", "green,0.5,train", "red,1.0,test", "blue,0.7,train"]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    data = {"kind": "arrays", "images": str(tmp_path / "images.npy"), "labels": str(tmp_path / "labels.csv")}
    found = open_dataset(data)
    assert found.space == FactorSpace(colour=["blue", "green", "red"], size=[0.5, 0.7, 1.0])
    assert found.positions.tolist() == [[2, 1], [1, 0], [2, 2], [0, 1]]
    assert found.is_test.tolist() == [False, False, True, False]
    assert found.available.sum() == 4
    given = FactorSpace(size=[0.5, 0.7, 1.0], colour=["red", "green", "blue"]).factors
    assert open_dataset(data, factors=given).positions.tolist() == [[1, 0], [0, 1], [2, 0], [1, 2]]
    assert open_dataset(data, factors={"colour": given["colour"]}).counts.tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    ("column", "factor", "places"),
    [
        ([3, 1, 2], discrete(3, low=1.0), [2, 0, 1]),
        ([0.1, 0.4, 0.2], discrete([0.1, 0.2, 0.4]), [0, 2, 1]),
        (np.array([0.1, 0.3, 0.2], dtype=np.float32), discrete(3, low=0.1, step=0.1), [0, 2, 1]),
        (["10", "9", "1.5"], discrete([1.5, 9, 10]), [2, 1, 0]),
        (["b", "a", "10"], categorical(["10", "a", "b"]), [2, 1, 0]),
    ],
)
def test_factors_found_in_labels(column, factor, places):
    found, positions = inferred(np.asarray(column), "f")
    assert found == factor
    assert positions.tolist() == places


@pytest.mark.parametrize(
    ("shape", "channels", "expected"),
    [
        ((5, 6, 7), None, (6, 7)),
        ((5, 9), None, (9,)),
        ((5, 6, 7, 3), None, (3, 6, 7)),
        ((5, 3, 6, 7), None, (3, 6, 7)),
        ((5, 1, 6, 7), None, (6, 7)),
        ((5, 6, 7, 1), None, (6, 7)),
        ((5, 3, 6, 3), "last", (3, 3, 6)),
        ((5, 2, 6, 7), "first", (2, 6, 7)),
    ],
)
def test_channels_come_first(tmp_path, shape, channels, expected):
    images = layouts.noise(shape)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(5))
    data = {"kind": "arrays", "images": str(tmp_path / "a.npz"), "names": ["x"], "channels": channels}
    dataset = open_dataset(data)
    assert dataset.picture_shape == expected
    last = len(shape) == 4 and expected[0] == shape[-1]
    picture = np.moveaxis(images[2], -1, 0) if last else images[2]
    np.testing.assert_allclose(dataset.pictures(torch.tensor([2]))[0], picture.reshape(expected) / 255, atol=1e-6)


@pytest.mark.parametrize(
    ("images", "scale", "expected"),
    [
        (np.array([[0, 255]], dtype=np.uint8), None, 255),
        (np.array([[0, 1]], dtype=np.uint8), None, 1),
        (np.array([[False, True]]), None, 1),
        (np.array([[0, 40000]], dtype=np.uint16), None, 65535),
        (np.array([[0.0, 1.0]]), None, 1),
        (np.array([[0.0, 255.0]]), 255.0, 255),
    ],
)
def test_what_stored_numbers_are_divided_by(tmp_path, images, scale, expected):
    np.savez(tmp_path / "a.npz", images=np.repeat(images, 2, axis=0), labels=np.arange(2))
    dataset = open_dataset({"kind": "arrays", "images": str(tmp_path / "a.npz"), "names": ["x"], "scale": scale})
    assert dataset.scale == expected
    assert dataset.pictures(torch.tensor([0])).tolist() == [pytest.approx((images[0] / expected).tolist())]


def test_pictures_of_different_sizes_are_resized_on_request(tmp_path):
    from PIL import Image

    layouts.pictures(tmp_path)
    Image.new("RGB", (8, 6), (10, 20, 30)).save(tmp_path / "picture-0.png")
    with pytest.raises(InputError, match=r"same size\..*6×8 pixels.*size=\[rows, columns\]"):
        open_dataset(tmp_path)
    dataset = open_dataset({"kind": "folder", "folder": str(tmp_path), "size": [3, 4]})
    assert dataset.picture_shape == (3, 3, 4)
    picture = dataset.pictures(torch.tensor([0]))[0]
    torch.testing.assert_close(picture, torch.tensor([10, 20, 30])[:, None, None].expand(3, 3, 4) / 255)


def test_grey_and_transparent_pictures(tmp_path):
    from PIL import Image

    Image.new("L", (3, 2), 51).save(tmp_path / "a.png")
    Image.new("L", (3, 2), 102).save(tmp_path / "b.png")
    (tmp_path / "labels.csv").write_text("file,x\na.png,0\nb.png,1\n")
    grey = open_dataset(tmp_path)
    assert grey.picture_shape == (2, 3)
    assert grey.pictures(torch.arange(2))[:, 0, 0].tolist() == pytest.approx([0.2, 0.4])
    Image.new("RGBA", (3, 2), (255, 0, 0, 0)).save(tmp_path / "b.png")
    mixed = open_dataset(tmp_path)
    assert mixed.picture_shape == (3, 2, 3)
    assert mixed.pictures(torch.tensor([1])).min() == 1  # transparent red is white
