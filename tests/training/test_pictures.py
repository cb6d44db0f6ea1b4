"""Training on data sets: all pictures of trained cells, none of held-out cells or of the test part."""

import numpy as np
import pytest
import torch

from recombine.core import encodings, holdouts
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.scenes import Bump
from recombine.core.task import Task
from recombine.training.recipe import recipe
from recombine.training.training_set import TrainingSet, check_examples, epoch_length
from tests.core.datasets.layouts import grid, noise

FACTORS = {"colour": ["red", "blue"], "x": 3}
CELLS = np.array([0, 1, 2, 3, 4, 5, 0, 1, 0])  # of each picture
IMAGES = noise((len(CELLS), 4, 5))
LABELS = grid({"colour": 2, "x": 3})[CELLS]
HELD = [[0, 1, 0], [0, 0, 0]]  # cell 1, of which there are two pictures
CPU = torch.device("cpu")


def training_set(task: Task, **examples) -> TrainingSet:
    return TrainingSet(task, recipe("recommended", examples=examples), CPU)


def shown(examples: TrainingSet, rows: torch.Tensor) -> list[int]:
    """Numbers of the pictures that rows show."""
    targets = examples.batch(rows)[1]
    return [int(np.flatnonzero((np.abs(IMAGES / 255 - t.numpy()) < 1e-6).all((1, 2)))[0]) for t in targets]


@pytest.fixture
def task() -> Task:
    return Task.from_arrays(IMAGES, LABELS, factors=FACTORS, holdout=HELD)


@pytest.mark.parametrize("source", ["cells", "pictures"])
def test_all_pictures_of_trained_cells_are_examples(task, source):
    examples = training_set(task, **{source: {"draw": "all"}, **({} if source == "cells" else {"cells": None})})
    rows = torch.cat(examples.epoch(0))
    assert len(rows) == epoch_length(task, examples.training) == 7
    assert sorted(shown(examples, rows)) == [0, 2, 3, 4, 5, 6, 8]
    inputs, _ = examples.batch(rows)
    values = task.space.values(torch.from_numpy(CELLS[shown(examples, rows)]))
    torch.testing.assert_close(inputs, task.inputs(values))


def test_the_test_part_is_not_trained_on():
    split = np.zeros(len(CELLS), dtype=bool)
    split[[1, 7, 8]] = True  # both pictures of cell 1, one of three pictures of cell 0
    task = Task.from_arrays(IMAGES, LABELS, factors=FACTORS, split=split)
    examples = training_set(task, cells={"draw": "all"})
    assert sorted(shown(examples, torch.cat(examples.epoch(0)))) == [0, 2, 3, 4, 5, 6]


def test_a_count_is_of_cells_or_of_pictures(task):
    cells = training_set(task, cells={"count": 5})
    drawn = [shown(cells, torch.cat(cells.epoch(seed))) for seed in range(20)]
    assert all(sorted(CELLS[pictures]) == [0, 2, 3, 4, 5] for pictures in drawn)
    assert {picture for pictures in drawn for picture in pictures} == {0, 2, 3, 4, 5, 6, 8}
    pictures = training_set(task, cells=None, pictures={"count": 2})
    assert {len(set(shown(pictures, torch.cat(pictures.epoch(seed))))) for seed in range(5)} == {2}
    for wrong in ({"cells": {"count": 6}}, {"cells": None, "pictures": {"count": 8}}):
        with pytest.raises(InputError) as caught:
            check_examples(task, recipe("recommended", examples=wrong))
        assert caught.value.key.endswith(".count")


def test_draws_with_replacement_are_of_pictures(task):
    examples = training_set(task, cells={"draw": "replacement", "samples": 200})
    assert set(shown(examples, torch.cat(examples.epoch(0)))) == {0, 2, 3, 4, 5, 6, 8}


def test_images_to_codes():
    task = Task.from_arrays(IMAGES, LABELS, factors=FACTORS, holdout=HELD)
    inverse = Task(task.scene, task.encoding, task.holdout, inverse=True)
    (forward, backward) = (training_set(t, cells={"draw": "all"}) for t in (task, inverse))
    rows = torch.arange(7)
    assert torch.equal(forward.batch(rows)[0], backward.batch(rows)[1])
    assert torch.equal(forward.batch(rows)[1], backward.batch(rows)[0])


def test_pictures_need_a_data_set():
    plane = FactorSpace(x=5, y=5)
    rendered = Task(Bump(plane), encodings.OneHot(plane), holdouts.centre(plane, 1, 3))
    with pytest.raises(InputError) as caught:
        check_examples(rendered, recipe("recommended", examples={"pictures": {}}))
    assert caught.value.key == "training.examples.pictures"


def test_single_factor_scenes_are_refused(task):
    with pytest.raises(InputError) as caught:
        check_examples(task, recipe("recommended", examples={"single_factor": {}}))
    assert caught.value.key == "training.examples.single_factor"


def test_large_data_are_read_batch_by_batch(task, monkeypatch):
    whole = training_set(task, cells={"draw": "all"})
    monkeypatch.setattr("recombine.training.training_set.TABLE_BYTES", 0)
    parts = training_set(task, cells={"draw": "all"})
    assert parts._table is None
    rows = torch.tensor([3, 0, 6, 3])
    for one, other in zip(whole.batch(rows), parts.batch(rows)):
        assert torch.equal(one, other)
