"""Tasks: one space for scene, code and hold-out; what goes in and what should come out."""

import pytest
import torch

from recombine import encodings, holdouts, scenes
from recombine.errors import InputError
from recombine.factors import FactorSpace
from recombine.task import Task

PLANE = FactorSpace(x=9, y=7)
HELD = holdouts.centre(PLANE, 3, 5)


def test_forward_and_inverse_swap_inputs_and_targets():
    forward = Task(scenes.Bump(PLANE), encodings.OneHot(PLANE), HELD)
    inverse = Task(scenes.Bump(PLANE), encodings.OneHot(PLANE), HELD, inverse=True)
    values = PLANE.values(torch.arange(len(PLANE)))
    assert forward.sizes == inverse.sizes
    assert (forward.sizes.code_size, forward.sizes.image_shape) == (16, (7, 9))
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
    with pytest.raises(InputError, match="holds nothing out"):
        Task(scenes.Bump(PLANE), encodings.OneHot(PLANE), holdouts.mask(PLANE, [0] * 63), allow_unseen=True)
