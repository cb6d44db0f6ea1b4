"""The contract that every layout keeps: the pictures and labels of the files, in [0, 1], by number."""

import numpy as np
import pytest
import torch

from recombine.core.datasets import DATASETS, Dataset, open_dataset
from recombine.core.errors import InputError
from tests.core.datasets.layouts import LAYOUTS, Written

every = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture
def written(layout, tmp_path) -> Written:
    return LAYOUTS[layout](tmp_path)


@pytest.fixture
def dataset(written) -> Dataset:
    return open_dataset(written.data)


def test_every_layout_is_under_contract(tmp_path):
    kinds = {LAYOUTS[name](tmp_path).data["kind"] for name in LAYOUTS}
    assert kinds | {"memory"} == set(DATASETS.components)  # test_memory.py has that one


@every
def test_pictures_are_those_of_the_file(written, dataset):
    numbers = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0))
    found = dataset.pictures(numbers)
    assert found.shape[1:] == dataset.picture_shape == written.pictures.shape[1:]
    tolerance = 2 / 255 if written.data["kind"] == "folder" else 1e-6  # JPEG is lossy
    np.testing.assert_allclose(found.numpy(), written.pictures[numbers.numpy()], atol=tolerance)
    assert found.dtype == torch.float32
    assert 0 <= found.min() <= found.max() <= 1


@every
def test_labels_are_grid_positions(written, dataset):
    varying = [i for i, size in enumerate(written.sizes.values()) if size > 1]
    assert dataset.space.shape == tuple(size for size in written.sizes.values() if size > 1)
    assert dataset.space.names == tuple(list(written.sizes)[i] for i in varying)
    np.testing.assert_array_equal(dataset.positions, written.positions[:, varying])
    assert dataset.space.coordinates(dataset.cells).tolist() == written.positions[:, varying].tolist()
    assert set(dataset.fixed) == {name for name, size in written.sizes.items() if size == 1}
    assert dataset.available.all()


@every
def test_the_own_split_is_kept(written, dataset):
    if written.is_test is None:
        assert dataset.is_test is None
        assert dataset.test_cells is None
    else:
        np.testing.assert_array_equal(dataset.is_test, written.is_test)
        assert dataset.test_cells.sum() == written.is_test.sum()


@every
def test_subsampling_is_on_record(written, dataset):
    name = dataset.space.names[-1]
    part = open_dataset(written.data, keep={name: "0:2:1"})
    axis = list(written.sizes).index(name)
    chosen = np.flatnonzero(written.positions[:, axis] < 2)
    assert part.keep == ({name: [0, 1]} if written.sizes[name] > 2 else {})
    assert len(part) == len(chosen)
    assert torch.equal(part.pictures(torch.arange(len(part))), dataset.pictures(torch.from_numpy(chosen)))
    again = open_dataset(written.data, keep=part.keep, sha256=part.sha256)
    assert again.space == part.space
    assert torch.equal(again.cells, part.cells)


@every
def test_a_factor_with_one_value_left_is_no_factor(written, dataset):
    name, label = dataset.space.names[0], next(iter(dataset.space.factors.values())).labels[1]
    part = open_dataset(written.data, keep={name: [1]})
    assert name not in part.space.names
    assert part.fixed[name] == label
    chosen = torch.from_numpy(np.flatnonzero(dataset.positions[:, 0] == 1))
    assert torch.equal(part.pictures(torch.arange(len(part))), dataset.pictures(chosen))


@every
def test_checksums_name_the_content(written, dataset):
    assert all(len(sha256) == 64 for sha256 in dataset.sha256.values())
    assert open_dataset(written.data, sha256=dataset.sha256).space == dataset.space
    role = next(iter(dataset.sha256))
    with pytest.raises(InputError, match=r"changed after its checksum was recorded"):
        open_dataset(written.data, sha256={**dataset.sha256, role: "0" * 64})


@every
def test_pictures_by_cell(dataset):
    cells = torch.tensor([3, 0, 3])
    assert dataset.cells[dataset.first(cells)].tolist() == [3, 0, 3]
    assert [dataset.cells[dataset.of(cell)].tolist() for cell in (0, 3)] == [[0], [3]]
    assert int(dataset.counts.sum()) == len(dataset)


@every
def test_the_layout_is_told_from_the_file(written, dataset):
    path = written.data.get("file") or written.data.get("folder") or written.data["images"]
    if written.data["kind"] == "arrays":
        with pytest.raises(InputError, match="need labels"):
            open_dataset(path)
    else:
        assert open_dataset(path).config == dataset.config
