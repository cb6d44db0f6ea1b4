"""Tasks: one space for scene, code and hold-out; what goes in and what should come out."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from recombine.core import encodings, holdouts, scenes
from recombine.core.data_task import as_factors
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, continuous
from recombine.core.task import Task

PLANE = FactorSpace(x=9, y=7)
HELD = holdouts.centre(PLANE, 3, 5)


def test_forward_and_inverse_swap_inputs_and_targets():
    forward = Task(scenes.Bump(PLANE), encodings.OneHot(PLANE), HELD)
    inverse = Task(scenes.Bump(PLANE), encodings.OneHot(PLANE), HELD, inverse=True)
    values = PLANE.values(torch.arange(len(PLANE)))
    assert forward.shapes == inverse.shapes
    assert (forward.shapes.code_size, forward.shapes.output_shape) == (16, (7, 9))
    assert (forward.input_shape, forward.target_shape) == ((16,), (7, 9))
    assert (inverse.input_shape, inverse.target_shape) == ((7, 9), (16,))
    assert torch.equal(forward.inputs(values), inverse.targets(values))
    assert torch.equal(forward.targets(values), inverse.inputs(values))
    assert forward.inputs(values).shape == (63, 16)
    present = torch.tensor([[True, False]]).expand(63, -1)
    assert torch.equal(forward.targets(values, present), scenes.Stripe(PLANE, factor="x")(values))
    assert (forward.inputs(values, present)[:, 9:] == 0).all()


def test_parts_of_different_spaces_are_refused():
    other = FactorSpace(y=7, x=9)
    for parts in (
        (scenes.Bump(PLANE), encodings.OneHot(other), HELD),
        (scenes.Bump(PLANE), encodings.OneHot(PLANE), holdouts.centre(other, 3, 5)),
    ):
        with pytest.raises(InputError) as caught:
            Task(*parts)
        assert "must share one factor space. Got FactorSpace(x=9, y=7) for the scene and FactorSpace(y=7, x=9)" in str(
            caught.value
        )


def test_unseen_values_are_named_and_allowed_only_when_asked_for():
    gap = holdouts.gap(PLANE, "x", 3, 4)
    with pytest.raises(InputError, match=r"never seen in training: x ∈ \{3, 4\}"):
        Task(scenes.Bump(PLANE), encodings.OneHot(PLANE), gap)
    Task(scenes.Bump(PLANE), encodings.OneHot(PLANE), gap, allow_unseen=True)
    with pytest.raises(InputError, match="there are no OOD cells"):
        Task(scenes.Bump(PLANE), encodings.OneHot(PLANE), holdouts.mask(PLANE, [0] * 63), allow_unseen=True)


def test_a_task_knows_which_cells_its_scene_has():
    scene = scenes.Bump(PLANE)
    scene.available = np.ones(PLANE.shape, bool)
    scene.available[4, 4] = scene.available[0, 0] = False
    task = Task(scene, encodings.OneHot(PLANE), HELD)
    assert (task.holdout.n_id, task.holdout.n_ood, task.holdout.n_unavailable) == (63 - 9 - 1, 8, 2)
    assert HELD.n_unavailable == 0
    scene.available = ~HELD.mask
    with pytest.raises(InputError, match="are unavailable"):
        Task(scene, encodings.OneHot(PLANE), HELD)


WRONG_SORTS = """
import recombine as rc

space = rc.FactorSpace(x=8, y=8)
parts = [rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.centre(space, 2, 5)]
model = rc.decoders.MLP(rc.Task(*parts), depth=1, width=4)
for attempt in (
    lambda: rc.Task(parts[0], 4, parts[2]),
    lambda: rc.train(model, rc.Task(*parts), training=3),
    lambda: parts[2] | 3,
    lambda: rc.holdouts.centre(4, 7),
):
    try:
        attempt()
    except rc.errors.InputError as error:
        print(error)
"""


def test_arguments_of_the_wrong_sort_are_named():
    """In a process of its own: here the type checker would be quicker to complain."""
    told = subprocess.run([sys.executable, "-c", WRONG_SORTS], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [
        "A task's encoding must be of type Encoding. Got 4 instead.",
        "training must be a recipe or the name of one. Got 3 instead.",
        "The operators |, & and ~ combine hold-outs only. Got 3 instead.",
        "The first argument of holdout 'centre' must be a FactorSpace. Got 4 instead.",
    ]


def test_whole_numbers_are_factor_values_too():
    space = FactorSpace(x=continuous(0.0, 4.0, 8), y=continuous(0.0, 4.0, 8))  # units every half value
    task = Task(scenes.Bump(space), encodings.Bump(space), holdouts.centre(space, 1, 2))
    whole = torch.tensor([[3, 1], [0, 2]])
    torch.testing.assert_close(task.inputs(whole), task.inputs(whole.float()))
    torch.testing.assert_close(task.targets(whole), task.targets(whole.float()))


def test_a_hold_out_of_unavailable_cells_only_is_refused_by_name():
    labels = np.array([(x, y) for x in range(3) for y in range(3) if (x, y) != (1, 2)])
    with pytest.raises(InputError, match=r"unavailable.*x=1, y=2") as caught:
        Task.from_arrays(np.zeros((8, 4, 4)), labels, factors=["x", "y"], holdout=[{"x": 1, "y": 2}])
    assert caught.value.key == "holdout"


def test_names_alone_are_no_factors_of_a_file():
    assert list(as_factors({"x": 3})) == list(as_factors(FactorSpace(x=3))) == ["x"]
    with pytest.raises(InputError, match=r"Got list.*'names'"):
        as_factors(["x", "y"])
