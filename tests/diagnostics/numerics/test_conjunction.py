"""Conjunction scores: models whose answers are sums or products by construction."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from recombine.core import encodings, holdouts, scenes
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, discrete
from recombine.core.task import Task
from recombine.diagnostics.numerics.conjunction import conjunction, sum_of_single_factors

PLANE = FactorSpace(x=10, y=8)


def task_of(space: FactorSpace = PLANE, **scene) -> Task:
    return Task(scenes.Bump(space, **scene), encodings.Bump(space), holdouts.centre(space, 3, 5, factors=["x", "y"]))


class Answer(nn.Module):
    """Answers with what a function makes of the factor values."""

    def __init__(self, task: Task, make) -> None:
        super().__init__()
        self.task, self.make = task, make

    def forward(self, code: torch.Tensor) -> torch.Tensor:
        return self.make(self.task.encoding.decode(code))


def shown(task: Task, images: torch.Tensor) -> torch.Tensor:
    return 1 - images if task.scene.inverted else images


TASKS = {
    "upright": task_of(),
    "inverted": task_of(inverted=True),
    "n=3": task_of(FactorSpace(y=8, x=10, brightness=discrete(2, low=0.5, step=0.5))),
}
tasks = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


@tasks
def test_a_sum_of_stripes_is_an_additive_conjunction_whatever_its_brightness(task):
    model = Answer(task, lambda v: shown(task, 0.3 * sum_of_single_factors(task.scene, v)))
    found = conjunction(model, task)
    assert len(found.cells) == task.holdout.n_ood
    assert np.allclose(found.additive, 1, atol=1e-5)
    assert np.allclose(found.composed, found.baseline, atol=1e-5)
    assert (found.baseline < 0.9).all()


@tasks
def test_the_true_scene_is_composed(task):
    found = conjunction(Answer(task, task.scene), task)
    assert np.allclose(found.composed, 1, atol=1e-5)
    assert np.allclose(found.additive, found.baseline, atol=1e-5)


def test_the_sum_of_two_stripes_in_closed_form():
    scene = TASKS["upright"].scene
    value = torch.tensor([[4.0, 3.0]])
    x, y = (torch.exp(-((torch.arange(n) - v) ** 2) / 2) for n, v in ((10, 4.0), (8, 3.0)))
    torch.testing.assert_close(sum_of_single_factors(scene, value)[0], y[:, None] + x[None, :])


def test_the_baseline_in_closed_form():
    """⟨ab, a+b⟩ / (‖ab‖ ‖a+b‖) with a over columns and b over rows."""
    task = TASKS["upright"]
    cell = task.space.cells(torch.tensor([[4.0, 3.0]]))
    a, b = (np.exp(-((np.arange(n) - v) ** 2) / 2) for n, v in ((10, 4.0), (8, 3.0)))
    product = (a**2).sum() * b.sum() + a.sum() * (b**2).sum()
    length = math.sqrt((a**2).sum() * (b**2).sum())
    added = math.sqrt(8 * (a**2).sum() + 10 * (b**2).sum() + 2 * a.sum() * b.sum())
    found = conjunction(Answer(task, task.scene), task, cell)
    assert found.baseline[0] == pytest.approx(product / length / added, rel=1e-5)


def test_an_all_black_stripe_answer_is_orthogonal_or_undefined():
    task = TASKS["upright"]
    found = conjunction(Answer(task, lambda v: torch.zeros(len(v), 8, 10)), task)
    assert np.isnan(found.additive).all()
    assert np.isnan(found.composed).all()
    negative = conjunction(Answer(task, lambda v: -task.scene(v)), task)
    assert np.allclose(negative.composed, -1, atol=1e-5)


def test_a_table_has_a_row_per_held_out_cell_and_chunks_do_not_matter():
    task = TASKS["n=3"]
    whole, parts = (conjunction(Answer(task, task.scene), task, chunk=n) for n in (1000, 4))
    table = whole.to_pandas()
    assert list(table.columns) == ["cell", "y", "x", "brightness", "additive", "composed", "baseline"]
    assert len(table) == task.holdout.n_ood
    np.testing.assert_allclose(whole.additive, parts.additive, rtol=1e-6)


def test_cells_may_be_chosen_if_they_exist():
    task = TASKS["n=3"]
    found = conjunction(Answer(task, task.scene), task, [3, 1])
    assert found.cells.tolist() == [3, 1]
    for wrong in ([1000], [-1]):
        with pytest.raises(InputError, match="Cells are numbered 0 …"):
            conjunction(Answer(task, task.scene), task, wrong)


def test_it_refuses_the_inverse_task():
    inverse = Task(TASKS["upright"].scene, TASKS["upright"].encoding, TASKS["upright"].holdout, inverse=True)
    with pytest.raises(InputError, match="image → code"):
        conjunction(nn.Identity(), inverse)
