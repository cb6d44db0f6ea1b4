"""Roles of factors that resize or turn, and composers that carry them out."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch.func import jvp, vmap

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.roles import Does, roles_of
from recombine.models.composed.simplify import simplify
from recombine.models.composed.warp import warped
from recombine.models.composed.warp_roles import grounds_of, warp_roles
from tests.models.composed.test_observed import SCALES, SHIFTS, SIDE, drawn


def taught() -> tuple[FactorComposer, torch.Tensor, torch.Tensor]:
    """A composer that has learnt nothing but what it saw: a shape, its size and its place."""
    images, indices = drawn(["resizes", "moves"])
    torch.manual_seed(0)
    composer = FactorComposer((2, len(SCALES), len(SHIFTS)), (SIDE, SIDE), images=images[:, 0])
    with torch.no_grad():
        for kernels in composer.kernels:
            kernels.normal_(std=0.3)  # every factor seems to draw
    return composer, indices, images[:, 0]


def test_roles_are_those_that_the_images_show():
    composer, indices, images = taught()
    roles = warp_roles(composer, indices, images, torch.zeros(1, SIDE, SIDE))
    assert roles is not None
    shape, size, x = roles.roles
    assert [role.does for role in (shape, size, x)] == [Does.DRAWS, Does.RESIZES, Does.MOVES]
    assert x.shifts == [(-2, 0), (0, 0), (3, 0)]
    assert str(size) == "1 resizes it (× 0.55 … 1)"


def test_images_in_which_nothing_is_resized_have_no_such_roles():
    images, indices = drawn(["moves"])
    composer = FactorComposer((2, len(SHIFTS)), (SIDE, SIDE), images=images[:, 0])
    assert warp_roles(composer, indices, images[:, 0], torch.zeros(1, SIDE, SIDE)) is None


def test_simplified_composers_warp_what_is_drawn_and_keep_their_roles():
    composer, indices, images = taught()
    roles = warp_roles(composer, indices, images, torch.zeros(1, SIDE, SIDE))
    free = simplify(composer, roles)
    assert composer.warps is not None
    assert not free[composer.warps].any()
    assert not composer.kernels[1].any()
    drawing = images[(indices[:, 0] == 0) & (indices[:, 1] == 2) & (indices[:, 2] == 1)]
    with torch.no_grad():
        composer.kernels[0].copy_((drawing / composer.contrast - composer.identity).unsqueeze(1))
        for own in (composer.drawing, composer.colours, composer.background):
            own.zero_()
        for gains in composer.gains:
            gains.zero_()
        found = composer(torch.tensor([[0, 0, 1]]))
        by = composer.warps_of(1)[0] + composer.warps_of(2)[1]
    torch.testing.assert_close(found, warped(drawing, by), rtol=0, atol=1e-5)
    assert [role.does for role in roles_of(composer).roles][1] is Does.RESIZES


def test_stored_composers_keep_their_warps_and_others_have_none():
    composer, indices, images = taught()
    before = copy.deepcopy(composer.state_dict())
    assert "warps" not in before
    plain = composer(indices)
    simplify(composer, warp_roles(composer, indices, images, torch.zeros(1, SIDE, SIDE)))
    read = FactorComposer((2, len(SCALES), len(SHIFTS)), (SIDE, SIDE))
    read.load_state_dict(composer.state_dict())
    assert read.warps is not None
    torch.testing.assert_close(read(indices), composer(indices))
    read.load_state_dict(before)
    assert read.warps is None
    torch.testing.assert_close(read(indices), plain)


def test_gradients_of_a_composer_with_warps_are_right():
    """Images that share a drawing and a warp are warped once."""
    composer, indices, images = taught()
    simplify(composer, warp_roles(composer, indices, images, torch.zeros(1, SIDE, SIDE)))
    composer = composer.double()
    assert composer.warps is not None
    with torch.no_grad():
        composer.kernels[0].normal_(std=0.1)
    composer.warps.requires_grad_()
    some, targets = indices[:9], images[:9].double()
    torch.autograd.backward((composer(some) - targets).square().sum())
    together = composer.warps.grad
    composer.warps.grad = None
    for index, target in zip(some, targets):
        torch.autograd.backward((composer(index.unsqueeze(0))[0] - target).square().sum())
    assert together is not None
    assert together.abs().max() > 0
    torch.testing.assert_close(together, composer.warps.grad)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own, of forward mode
def test_derivatives_by_codes_of_images_that_share_a_warp_are_those_of_each_image_alone():
    composer, indices, images = taught()
    simplify(composer, warp_roles(composer, indices, images, torch.zeros(1, SIDE, SIDE)))
    composer = composer.double()
    sizes = composer.factor_sizes
    codes = torch.cat([F.one_hot(own, size) for own, size in zip(indices[:3].unbind(1), sizes)], dim=1).double()
    along, dual = torch.randn_like(codes), torch.randn(3, SIDE, SIDE, dtype=torch.double)

    def forward(codes, along):
        return jvp(composer, (codes,), (along,))[1]

    alone = torch.cat([forward(*some) for some in zip(codes.split(1), along.split(1))])
    torch.testing.assert_close(forward(codes, along), alone)
    (pulled,) = torch.autograd.grad(composer(codes.requires_grad_()), codes, dual)
    torch.testing.assert_close((pulled * along).sum(1), (alone * dual).sum((1, 2)))
    codes = codes.detach()
    torch.testing.assert_close(vmap(lambda code: composer(code.unsqueeze(0))[0])(codes), composer(codes))


def test_images_between_two_values_show_no_roles():
    composer, _, images = taught()
    between = torch.full((len(images), 3), 0.3)
    assert warp_roles(composer, between, images, torch.zeros(1, SIDE, SIDE)) is None


def test_images_of_the_ground_alone_show_no_roles():
    composer, indices, images = taught()
    assert warp_roles(composer, indices, torch.zeros_like(images), torch.zeros(1, SIDE, SIDE)) is None


@pytest.mark.parametrize("centred", [True, False])
def test_an_object_that_never_leaves_the_centre_is_not_taken_for_the_ground(centred):
    images = drawn(["turns" if centred else "moves"])[0][:, 0] + 0.2
    images = images if centred else torch.cat([images, torch.full_like(images, 0.2)])
    composer = FactorComposer((2, 4), (SIDE, SIDE), images=images)
    first = grounds_of(composer)[0]
    torch.testing.assert_close(first, torch.full_like(first, 0.2), rtol=0, atol=0.02)
