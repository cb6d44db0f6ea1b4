"""What factors do to objects, determined from images that were drawn by hand."""

import math
from collections.abc import Sequence

import pytest
import torch

from recombine.models.composed.observed import objects_of, observed, rotation
from recombine.models.composed.warp import warped

SIDE = 18
SCALES, ANGLES, SHIFTS = (-0.6, -0.3, 0.0), (0.0, 0.9, 2.0, 3.1), (-2.0, 0.0, 3.0)
SMALL = -0.4


def shapes() -> torch.Tensor:
    at = torch.arange(SIDE) - (SIDE - 1) / 2
    r, c = torch.meshgrid(at, at, indexing="ij")
    drop = torch.exp(-(((r - 1) / 4) ** 2) - ((c + 0.04 * r**2) / 2) ** 2)
    corner = torch.sigmoid(2 * (3.5 - torch.maximum(r.abs(), c.abs()))) * torch.sigmoid(r - c)
    return torch.stack([drop, corner])


def drawn(acts: Sequence[str], seen: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and values of two shapes, and of factors that resize, turn or move them."""
    choices = {"resizes": SCALES, "turns": ANGLES, "moves": SHIFTS}
    sizes = [2, *(len(choices[act]) for act in acts)]
    values = torch.cartesian_prod(*map(torch.arange, sizes))
    values = values if seen is None else values[seen]
    warps = torch.zeros(len(values), 4)
    for k, act in enumerate(acts, start=1):
        warps[:, {"resizes": 0, "turns": 1, "moves": 3}[act]] = torch.tensor(choices[act])[values[:, k]]
    return warped(shapes()[values[:, 0]], warps).unsqueeze(1), values


def test_a_factor_that_resizes_is_told_from_shapes():
    objects = objects_of(*drawn(["resizes", "moves"]))
    found = observed(objects, 1, 3, 0.9)
    assert found.resizes > 0.98
    torch.testing.assert_close(found.scales, torch.tensor(SCALES), rtol=0, atol=0.03)
    shape, x = observed(objects, 0, 2, 0.9), observed(objects, 2, 3, 0.9)
    assert max(shape.moves, shape.resizes, shape.turns, shape.warps) < 0.8
    assert x.moves > 0.98
    assert max(x.resizes, x.turns, x.warps) < 0.8


def test_a_factor_that_turns_is_told_from_one_that_resizes():
    images, values = drawn(["turns", "resizes"])
    seen = (values[:, 1] < 2) | (values[:, 2] < 2)
    found = observed(objects_of(images[seen], values[seen]), 1, 4, 0.9)
    assert found.turns > 0.95 > 0.5 > found.resizes
    torch.testing.assert_close(found.angles, torch.tensor(ANGLES) - ANGLES[2], rtol=0, atol=0.05)
    torch.testing.assert_close(found.scales, torch.zeros(4))


def test_values_that_no_context_ties_together_directly_are_placed_in_turn():
    """The first shape is seen at the first and the last angle, the second one at all but the first."""
    images, values = drawn(["turns"])
    seen = torch.where(values[:, 0] == 0, values[:, 1] % 3 == 0, values[:, 1] > 0)
    found = observed(objects_of(images[seen], values[seen]), 1, 4, 0.9)
    torch.testing.assert_close(found.angles, torch.tensor(ANGLES) - ANGLES[2], rtol=0, atol=0.05)


def test_a_factor_may_resize_and_turn():
    values = torch.cartesian_prod(torch.arange(2), torch.arange(3))
    warps = torch.tensor([[-0.6, -0.8, 0, 0], [-0.3, 0, 0, 0], [0, 0.8, 0, 0]])
    images = warped(shapes()[values[:, 0]], warps[values[:, 1]]).unsqueeze(1)
    found = observed(objects_of(images, values), 1, 3, 0.9)
    assert found.warps > 0.95
    assert max(found.resizes, found.turns) < 0.9
    torch.testing.assert_close(found.angles, warps[:, 1], rtol=0, atol=0.05)


def test_nothing_is_told_of_a_factor_that_never_changes_alone():
    images, values = drawn(["turns"])
    seen = (values[:, 0] == 0) & (values[:, 1] == 0)
    assert observed(objects_of(images[seen], values[seen]), 1, 4, 0.9).moves == 0


def test_empty_images_are_left_out():
    images, values = drawn(["moves"])
    objects = objects_of(torch.cat([images, torch.zeros_like(images[:1])]), torch.cat([values, values[:1]]))
    assert len(objects.images) == len(images)


@pytest.mark.parametrize("angle", [0.4, -2.0])
def test_rotations_turn_as_warps_do(angle):
    [turn] = rotation(torch.tensor([angle]))
    blob = torch.zeros(1, SIDE, SIDE)
    blob[0, 5, 9] = 1
    [before] = objects_of(blob.unsqueeze(1), torch.zeros(1, 1).long()).places
    found = warped(blob, torch.tensor([[0, angle, 0, 0]])).unsqueeze(1)
    [after] = objects_of(found, torch.zeros(1, 1).long()).places
    torch.testing.assert_close(after, turn @ before, rtol=0, atol=0.15)
    assert math.isclose(float(turn.det()), 1, rel_tol=1e-5)


def test_objects_of_a_single_pixel_have_a_size():
    """They move, and a size of zero would have no logarithm."""
    values = torch.cartesian_prod(torch.arange(2), torch.arange(4))
    images = torch.zeros(8, 1, SIDE, SIDE)
    images[torch.arange(8), 0, 5 + values[:, 0], 3 + 2 * values[:, 1]] = 1
    objects = objects_of(images, values)
    assert objects.sizes.isfinite().all()
    assert observed(objects, 1, 4, 0.9).moves > 0.99


def test_a_factor_may_be_the_only_one():
    images, values = drawn(["resizes"])
    only = values[:, 0] == 0
    assert observed(objects_of(images[only], values[only, 1:]), 0, 3, 0.9).resizes > 0.98
