"""Which examples a run sees, and in which order."""

import pytest
import torch

from recombine import Task, recipe
from recombine.core import encodings, holdouts, scenes
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, discrete
from recombine.training import training_set
from recombine.training.examples import EXAMPLES, ExampleSource
from recombine.training.examples.single_factor import single_factor_values
from recombine.training.order import Order, Schedule
from recombine.training.training_set import TrainingSet, check_examples, epoch_length

pytestmark = pytest.mark.quick
CPU = torch.device("cpu")


def small_task(**factors):
    space = FactorSpace(x=8, y=8, **factors)
    return Task(scenes.Bump(space), encodings.Bump(space), holdouts.centre(space, 2, 5, ["x", "y"]))


def examples(kind="paper", **sources):
    return recipe(kind, examples=sources)


def test_every_row_occurs_once_per_epoch_across_batches():
    order = Order(torch.arange(100, 110), batch=4, seed=0)
    seen = torch.cat([order(step) for step in range(5)])  # two epochs of ten rows
    assert sorted(seen[:10].tolist()) == sorted(seen[10:].tolist()) == list(range(100, 110))
    assert seen[:10].tolist() != seen[10:].tolist()


def test_the_order_is_a_pure_function_of_seed_and_step():
    rows = torch.arange(37)
    forwards = [Order(rows, 8, seed=3)(step).tolist() for step in range(20)]
    walk = Order(rows, 8, seed=3)
    assert [walk(step).tolist() for step in reversed(range(20))] == forwards[::-1]
    assert Order(rows, 8, seed=4)(0).tolist() != forwards[0]


def test_a_batch_may_span_several_short_epochs():
    assert sorted(Order(torch.arange(3), batch=9, seed=0)(0).tolist()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_orders_may_follow_each_other():
    schedule = Schedule([(0, Order(torch.arange(100, 104), 4, seed=0)), (3, Order(torch.arange(8), 4, seed=0))])
    seen = [schedule(step) for step in range(5)]
    assert all(part.min() >= 100 for part in seen[:3])
    assert sorted(torch.cat(seen[3:]).tolist()) == list(range(8))


def test_no_held_out_cell_is_ever_an_example():
    task = small_task()
    [placed] = TrainingSet(task, recipe("paper"), CPU).sources
    values, _ = placed.source.factors(torch.arange(len(placed.source)))
    assert len(placed.source) == task.holdout.n_id
    assert not task.holdout.contains(values).any()


def test_drawing_with_replacement_gives_the_asked_number_with_repeats():
    table = TrainingSet(small_task(), examples(cells={"samples": 500}), CPU)
    [rows] = table.epoch(seed=0)
    assert len(rows) == 500
    assert len(rows.unique()) < 500
    assert rows.max() < len(table)


def test_counted_cells_are_distinct_and_differ_between_seeds():
    table = TrainingSet(small_task(), examples(cells={"count": 10}), CPU)
    [first], [second] = (table.epoch(seed) for seed in (0, 1))
    assert len(first.unique()) == 10
    assert first.tolist() != second.tolist()


def test_two_sources_of_a_kind_draw_apart():
    table = TrainingSet(small_task(), examples(cells={"count": 10}, more={"kind": "cells", "count": 10}), CPU)
    first, second = table.epoch(0)
    assert second.min() >= len(table) // 2
    assert (second - len(table) // 2).tolist() != first.tolist()


def test_a_share_of_the_cells_is_rounded_to_whole_cells():
    [rows] = TrainingSet(small_task(), examples(cells={"share": 0.1}), CPU).epoch(seed=0)
    assert len(rows) == 5  # of 48


@pytest.mark.parametrize(
    ("sources", "key"),
    [
        ({"cells": {"count": 10_000}}, "training.examples.cells.count"),
        ({"cells": {"count": 3, "share": 0.5}}, "training.examples.cells.share"),
        ({"cells": {"count": 0}}, "training.examples"),
        ({"cells": None}, "training.examples"),
        ({"cells": {"start": 0.5}}, "training.examples"),
        ({"cells": {"stop": 0.5}, "single_factor": {"stop": 0.4}}, "training.examples"),
        ({"cells": {"count": 0}, "single_factor": {"start": 0.1}}, "training.examples"),
    ],
)
def test_sources_that_a_task_cannot_give_are_refused_by_key(sources, key):
    with pytest.raises(InputError) as caught:
        check_examples(small_task(), examples(**sources))
    assert caught.value.key == key


def test_a_source_that_starts_later_leaves_the_first_steps_to_the_others():
    task = small_task()
    table = TrainingSet(task, examples(cells={"start": 0.25}, single_factor={"stop": 0.5}), CPU)
    schedule = table.schedule(seed=0, total=20)
    is_cell = [schedule(step) < task.holdout.n_id for step in range(20)]
    assert not any(rows.any() for rows in is_cell[:5])
    assert any(rows.any() for rows in is_cell[5:10])
    assert not all(rows.all() for rows in is_cell[5:10])
    assert all(rows.all() for rows in is_cell[10:])


def test_examples_hold_no_numbers_that_only_slow_the_processor_down():
    space = FactorSpace(x=28, y=28)
    task = Task(scenes.Bump(space), encodings.Bump(space), holdouts.centre(space))
    rendered = TrainingSet(task, recipe("paper"), CPU).batch(torch.arange(495))
    for numbers in rendered:
        assert numbers[numbers != 0].abs().min() > 1e-8
    exact = task.targets(space.values(task.holdout.id_cells))
    assert (rendered[1] - exact).abs().max() < 2e-8


@pytest.mark.parametrize("flag", [False, True])
def test_single_factors_need_a_code_for_an_absent_factor(flag):
    space, training = FactorSpace(x=8, y=8), examples(single_factor={})
    task = Task(scenes.Bump(space), encodings.Ramp(space, flag=flag), holdouts.centre(space, 2, 5))
    if not flag:
        with pytest.raises(InputError, match="presence flag"):
            check_examples(task, training)
        return
    check_examples(task, training)
    assert TrainingSet(task, training, CPU).batch(torch.tensor([48]))[0].tolist() == [[0, 1, 0, 0]]


def test_single_factors_need_a_scene_that_can_leave_one_out(monkeypatch):
    monkeypatch.setattr(scenes.Bump, "has_absent", False, raising=False)
    with pytest.raises(InputError) as caught:
        check_examples(small_task(), examples(single_factor={}))
    assert caught.value.key == "training.examples.single_factor"


def test_single_factor_values_are_each_value_of_each_factor():
    values, present = single_factor_values(FactorSpace(x=3, y=2))
    assert values.tolist() == [[0, 0], [1, 0], [2, 0], [0, 0], [0, 1]]
    assert present.tolist() == [[True, False]] * 3 + [[False, True]] * 2


def test_single_factor_examples_of_a_bump_are_stripes_with_an_absent_code_block():
    task = small_task()
    table = TrainingSet(task, examples("recommended", cells={"count": 5}, single_factor={"repeats": 3}), CPU)
    assert len(torch.cat(table.epoch(seed=0))) == 5 + 3 * 16
    codes, images = table.batch(torch.tensor([task.holdout.n_id + 2, task.holdout.n_id + 8 + 6]))
    profile = torch.exp(-((torch.arange(8.0)[:, None] - torch.arange(8.0)) ** 2) / 2)
    torch.testing.assert_close(images[0], profile[2].expand(8, 8))
    torch.testing.assert_close(images[1], profile[6][:, None].expand(8, 8))
    torch.testing.assert_close(codes[0], torch.cat([profile[2], torch.zeros(8)]))
    torch.testing.assert_close(codes[1], torch.cat([torch.zeros(8), profile[6]]))


def test_with_more_factors_there_is_a_single_factor_scene_for_each_value_of_each():
    task = small_task(size=discrete(3, low=0.5, step=0.5))
    table = TrainingSet(task, examples(single_factor={}), CPU)
    assert len(table) == task.holdout.n_id + 8 + 8 + 3
    assert [table.name_of(row) for row in (0, len(table) - 1)] == ["cells", "single_factor"]


def test_rendering_batch_by_batch_equals_the_table(monkeypatch):
    task, training, rows = small_task(), examples(single_factor={}), torch.tensor([[0, 50], [47, 60]])
    table = TrainingSet(task, training, CPU)
    monkeypatch.setattr(training_set, "TABLE_BYTES", 0)
    streamed = TrainingSet(task, training, CPU)
    assert table._table is not None
    assert streamed._table is None
    for a, b in zip(table.batch(rows), streamed.batch(rows)):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "training",
    [
        examples(cells={"samples": 500}),
        recipe("recommended"),
        examples("recommended", cells={"count": 7}),
        examples("recommended", cells={"share": 0.25}, single_factor={"repeats": 3}),
        examples(single_factor={}),
    ],
)
def test_the_length_of_an_epoch_is_known_without_rendering(training):
    task = small_task()
    assert epoch_length(task, training) == len(torch.cat(TrainingSet(task, training, CPU).epoch(seed=0)))


@pytest.fixture
def diagonal():
    """A source of one's own: the ID cells on the diagonal."""

    @EXAMPLES.register("diagonal")
    class Diagonal(ExampleSource):
        def __init__(self, task: Task, offset: int = 0) -> None:
            super().__init__(task)
            self.offset = offset

        def __len__(self):
            return 2

        def factors(self, rows):
            return torch.stack([rows, rows + self.offset], dim=1).float(), None

    yield Diagonal
    EXAMPLES.remove("diagonal")


def test_a_source_of_ones_own_is_a_class(diagonal):
    task = small_task()
    table = TrainingSet(task, examples(cells=None, diagonal={"offset": 1, "repeats": 2}), CPU)
    torch.testing.assert_close(
        table.batch(torch.tensor([1]))[1], task.targets(torch.tensor([[1.0, 2.0]])), atol=1e-7, rtol=0
    )
    assert table.epoch(0)[0].tolist() == [0, 1, 0, 1]


def test_weights_are_those_of_the_sources():
    table = TrainingSet(small_task(), examples(cells={"weight": 0.5}, single_factor={}), CPU)
    assert table.weights is not None
    assert table.weights.unique_consecutive().tolist() == [0.5, 1.0]
    assert TrainingSet(small_task(), recipe("paper"), CPU).weights is None
