"""Which examples a run sees, and in which order."""

import pytest
import torch

from recombine import Task, recipe
from recombine.core import encodings, holdouts, scenes
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, discrete
from recombine.training import data
from recombine.training.data import Examples, Order, check_data, drawn_rows, stripes

CPU = torch.device("cpu")


def small_task(**factors):
    space = FactorSpace(x=8, y=8, **factors)
    return Task(scenes.Bump(space), encodings.Bump(space), holdouts.centre(space, 2, 5, ["x", "y"]))


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


def test_no_held_out_cell_is_ever_an_example():
    task = small_task()
    examples = Examples(task, recipe("paper"), CPU)
    values, _ = examples._factors(torch.arange(len(examples)))
    assert len(examples) == task.holdout.n_id
    assert not task.holdout.contains(values).any()


def test_sampling_with_replacement_draws_the_asked_number_with_repeats():
    examples = Examples(small_task(), recipe("paper"), CPU)
    rows = drawn_rows(examples, recipe("paper", samples=500), seed=0)
    assert len(rows) == 500
    assert len(rows.unique()) < 500
    assert rows.max() < len(examples)


def test_bumps_are_distinct_cells_and_differ_between_seeds():
    training = recipe("paper", bumps=10)
    examples = Examples(small_task(), training, CPU)
    first, second = (drawn_rows(examples, training, seed) for seed in (0, 1))
    assert len(first.unique()) == 10
    assert first.tolist() != second.tolist()


def test_more_bumps_than_there_are_is_an_error_that_says_how_many_there_are():
    training = recipe("paper", bumps=10_000)
    with pytest.raises(InputError, match=r"bumps=10000 .* \(48\)"):
        check_data(small_task(), training)


def test_a_share_of_the_bumps_is_rounded_to_whole_cells():
    training = recipe("paper", bump_share=0.1)
    assert len(drawn_rows(Examples(small_task(), training, CPU), training, seed=0)) == 5  # of 48


def test_contradicting_settings_are_errors():
    with pytest.raises(InputError, match="bumps or bump_share, not both"):
        check_data(small_task(), recipe("paper", bumps=3, bump_share=0.5))
    with pytest.raises(InputError, match=r"stripes_first=0.5 needs stripes"):
        check_data(small_task(), recipe("paper", stripes_first=0.5))


def test_one_order_may_come_before_another():
    first = Order(torch.arange(100, 104), batch=4, seed=0)
    order = Order(torch.arange(8), batch=4, seed=0, after=(first, 3))
    seen = [order(step) for step in range(5)]
    assert all(part.min() >= 100 for part in seen[:3])
    assert sorted(torch.cat(seen[3:]).tolist()) == list(range(8))


def test_stripes_first_shows_only_stripes_at_first():
    from recombine.models.decoders import MLP
    from recombine.training.loop import Loop

    task = small_task()
    training = recipe("paper", steps=20, stripes=True, stripes_first=0.25)
    order = Loop([MLP(task, width=8)], task, [0], training, [], "cpu", None).state[0].order
    stripe_steps = [bool((order(step) >= task.holdout.n_id).all()) for step in range(20)]
    assert stripe_steps == [True] * 5 + [False] * 15


def test_examples_hold_no_numbers_that_only_slow_the_processor_down():
    space = FactorSpace(x=28, y=28)
    task = Task(scenes.Bump(space), encodings.Bump(space), holdouts.centre(space))
    for numbers in Examples(task, recipe("paper"), CPU).batch(torch.arange(495)):
        assert numbers[numbers != 0].abs().min() > 1e-8
    exact = task.targets(space.values(task.holdout.id_cells))
    assert (Examples(task, recipe("paper"), CPU).batch(torch.arange(495))[1] - exact).abs().max() < 2e-8


def test_nothing_to_train_on_is_an_error():
    with pytest.raises(InputError, match="nothing to train on"):
        check_data(small_task(), recipe("paper", bumps=0))


@pytest.mark.parametrize("flag", [False, True])
def test_stripes_need_a_code_for_an_absent_factor(flag):
    space, training = FactorSpace(x=8, y=8), recipe("paper", stripes=True)
    task = Task(scenes.Bump(space), encodings.Ramp(space, flag=flag), holdouts.centre(space, 2, 5))
    if not flag:
        with pytest.raises(InputError, match="presence flag"):
            check_data(task, training)
        return
    check_data(task, training)
    assert Examples(task, training, CPU).batch(torch.tensor([48]))[0].tolist() == [[0, 1, 0, 0]]


def test_stripes_are_all_single_factor_scenes():
    space = FactorSpace(x=3, y=2)
    values, present = stripes(space)
    assert values.tolist() == [[0, 0], [1, 0], [2, 0], [0, 0], [0, 1]]
    assert present.tolist() == [[True, False]] * 3 + [[False, True]] * 2


def test_stripe_examples_are_stripes_with_an_absent_code_block():
    task = small_task()
    training = recipe("recommended", stripes=True, stripe_repeats=3, bumps=5)
    examples = Examples(task, training, CPU)
    rows = drawn_rows(examples, training, seed=0)
    assert len(rows) == 5 + 3 * 16
    codes, images = examples.batch(torch.tensor([task.holdout.n_id + 2, task.holdout.n_id + 8 + 6]))
    profile = torch.exp(-((torch.arange(8.0)[:, None] - torch.arange(8.0)) ** 2) / 2)
    torch.testing.assert_close(images[0], profile[2].expand(8, 8))
    torch.testing.assert_close(images[1], profile[6][:, None].expand(8, 8))
    torch.testing.assert_close(codes[0], torch.cat([profile[2], torch.zeros(8)]))
    torch.testing.assert_close(codes[1], torch.cat([torch.zeros(8), profile[6]]))


def test_with_more_factors_there_is_a_stripe_for_each_value_of_each():
    task = small_task(size=discrete(3, low=0.5, step=0.5))
    examples = Examples(task, recipe("paper", stripes=True), CPU)
    assert examples.n_stripes == 8 + 8 + 3
    assert len(examples) == task.holdout.n_id + 19


def test_rendering_batch_by_batch_equals_the_table(monkeypatch):
    task, training, rows = small_task(), recipe("paper", stripes=True), torch.tensor([[0, 50], [47, 60]])
    table = Examples(task, training, CPU)
    monkeypatch.setattr(data, "TABLE_BYTES", 0)
    streamed = Examples(task, training, CPU)
    assert table._table is not None
    assert streamed._table is None
    for a, b in zip(table.batch(rows), streamed.batch(rows)):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "training",
    [
        recipe("paper", samples=500),
        recipe("recommended"),
        recipe("recommended", bumps=7),
        recipe("recommended", bump_share=0.25, stripes=True, stripe_repeats=3),
        recipe("paper", stripes=True),
    ],
)
def test_the_length_of_an_epoch_is_known_without_rendering(training):
    task = small_task()
    assert data.epoch_length(task, training) == len(drawn_rows(Examples(task, training, CPU), training, seed=0))
