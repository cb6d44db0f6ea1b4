"""Pictures that a program holds: arrays, tensors and map-style data sets, known by their checksum."""

import gc

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import TensorDataset

from recombine.core.datasets import open_dataset
from recombine.core.datasets.dataset import assembled
from recombine.core.datasets.memory import ROLE, source_of
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from tests.core.datasets.layouts import grid, noise

LABELS = grid({"colour": 2, "x": 3})
FACTORS = FactorSpace(colour=["red", "blue"], x=3).factors


def test_arrays_and_tensors_are_alike():
    images = noise((6, 4, 5))
    found = [source_of(kind(images), kind(LABELS)) for kind in (np.asarray, torch.as_tensor)]
    assert found[0][1] == found[1][1]
    first, second = (assembled(source, FACTORS, None) for source, _ in found)
    assert torch.equal(first.pictures(torch.arange(6)), torch.from_numpy(images / 255).float())
    assert torch.equal(first.cells, second.cells)


def test_the_checksum_is_of_pictures_labels_and_split():
    images = noise((6, 4, 5))
    changed = images.copy()
    changed[5, 3, 4] ^= 1
    split = [False] * 5 + [True]
    given = [(images, LABELS, None), (changed, LABELS, None), (images, LABELS[::-1], None), (images, LABELS, split)]
    names = [source_of(pictures, labels, split=part)[1] for pictures, labels, part in given]
    assert len(set(names)) == 4
    assert source_of(images.copy(), LABELS.copy())[1] == names[0]


def test_a_configuration_finds_arrays_that_are_still_held():
    source, sha256 = source_of(noise((6, 4, 5), seed=7), LABELS)
    dataset = open_dataset({"kind": "memory"}, factors=FACTORS, sha256={ROLE: sha256})
    assert dataset.source.shape == source.shape
    with pytest.raises(InputError, match="no longer in memory"):
        open_dataset({"kind": "memory"}, factors=FACTORS, sha256={ROLE: "0" * 64})


def test_arrays_that_nobody_holds_are_freed():
    source, sha256 = source_of(noise((6, 4, 5), seed=8), LABELS)
    del source
    gc.collect()
    with pytest.raises(InputError, match="no longer in memory"):
        open_dataset({"kind": "memory"}, factors=FACTORS, sha256={ROLE: sha256})


class Named(TorchDataset):
    """Labels by name, pictures made on demand."""

    def __init__(self):
        self.asked: list[int] = []

    def __len__(self):
        return 6

    def __getitem__(self, index):
        self.asked.append(index)
        return torch.full((3, 5, 5), index / 6), {"colour": ["red", "blue"][index // 3], "x": index % 3}


def test_a_map_style_data_set_yields_pictures_and_labels():
    images = torch.rand(6, 4, 5)
    tensors = assembled(source_of(TensorDataset(images, torch.as_tensor(LABELS)))[0], FACTORS, None)
    assert torch.equal(tensors.pictures(torch.tensor([4, 1])), images[[4, 1]])
    assert tensors.cells.tolist() == list(range(6))
    named = Named()
    dataset = assembled(source_of(named)[0], None, None)
    assert dataset.space == FactorSpace(colour=["blue", "red"], x=3)
    named.asked.clear()
    assert dataset.pictures(torch.tensor([5]))[0, 0, 0, 0] == pytest.approx(5 / 6)
    assert named.asked == [5]


def test_pandas_tables_are_labels():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"colour": ["red", "blue"] * 3, "x": [0, 0, 1, 1, 2, 2]})
    dataset = assembled(source_of(noise((6, 4, 5)), table)[0], None, None)
    assert dataset.space == FactorSpace(colour=["blue", "red"], x=3)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (noise((6, 4, 5)), LABELS[:5], "6 pictures, but the labels of 5 pictures"),
        (noise((6, 4, 5)), None, "need labels"),
        ([1, 2, 3], LABELS, "Got list"),
        (noise((6,)), LABELS, "Got (6,)"),
        (noise((6, 4, 5)).astype(object), LABELS, "must contain numbers"),
        (noise((6, 4, 5)), np.zeros((6, 2, 2)), "Got shape (6, 2, 2)"),
        (noise((6, 4, 5)), [[0, 1], [0]], "rows of different length"),
        (noise((6, 4, 5)), [[0, np.nan]] * 6, "labels in column 1 must be finite"),
        (noise((6, 4, 5)), {"x": ["red"] * 4 + [None] * 2}, "Got None for picture 4"),
        (noise((6, 4, 5)), {"x": np.array(["red"] * 5 + [1], dtype=object)}, "all numbers or all texts. Got both"),
        (noise((6, 2, 3, 20, 3)), LABELS, "(picture, number). Got (6, 2, 3, 20, 3)"),
        (noise((6, 4, 5)), {"x": [np.nan] + [0.0] * 5}, "Got nan for picture 0"),
        (TensorDataset(torch.zeros(6, 4, 5)), None, "must yield (picture, labels)"),
    ],
)
def test_bad_pictures_and_labels_are_explained(images, labels, message):
    with pytest.raises(InputError) as caught:
        source_of(images, labels)
    assert message in str(caught.value)


def bad(images, factors=FACTORS, labels=LABELS, keep=None):
    return assembled(source_of(images, labels)[0], factors, keep)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bad(np.full((6, 4, 5), np.nan)), "Picture 0 contains NaN"),
        (lambda: bad(noise((6, 4, 5)), labels=LABELS + 1), "Picture 2 has the label 3 for 'x'"),
        (lambda: bad(noise((6, 4, 5)), labels=LABELS + 1), "Picture 3 has the label 2 for 'colour'"),
        (lambda: bad(noise((6, 4, 5)), labels=LABELS + 0.5), "6 of 6 pictures have such labels"),
        (lambda: bad(noise((6, 4, 5)), factors=None), "names=[colour,shape] for recombine data"),
        (lambda: bad(noise((6, 4, 5)), factors={"x": FACTORS["x"]}), "1 factors (x) for them"),
        (lambda: bad(noise((6, 4, 5)), keep={"y": [0]}), "Factors: colour, x."),
        (lambda: bad(noise((6, 4, 5)), keep={"x": [3]}), "numbered from 0 to 2"),
        (lambda: bad(noise((6, 4, 5)), keep={"x": "3:"}), "values remains"),
        (lambda: bad(noise((6, 4, 5)), keep={"x": "a:b"}), "a slice such as"),
        (lambda: bad(noise((6, 4, 5)), keep={"colour": ["rad"]}), "did you mean 'red'?"),
        (lambda: bad(noise((6, 4, 5)), keep={"colour": [0], "x": [1]}), "more than one value"),
        (lambda: bad(noise((6, 3, 4, 4))), "both the first and the last axis"),
    ],
)  # fmt: skip
def test_bad_data_are_explained(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)


def test_a_picture_that_is_not_finite_is_named_when_it_is_read():
    images = np.zeros((600, 2, 2))
    images[334] = np.inf  # not one of those that are looked at on opening
    dataset = assembled(source_of(images, np.arange(600))[0], FactorSpace(x=600).factors, None)
    dataset.pictures(torch.arange(334))
    with pytest.raises(InputError, match="Picture 334 contains NaN or infinite"):
        dataset.pictures(torch.arange(330, 340))
