"""Settling composers some of whose factors resize or turn the object."""

import pytest
import torch

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.roles import Does, roles_of
from recombine.training.settle import settle
from recombine.training.warped_fit import roughness
from tests.models.composed.test_observed import SIDE, drawn


@pytest.mark.parametrize(("act", "does"), [("resizes", Does.RESIZES), ("turns", Does.TURNS)])
def test_unseen_sizes_and_angles_of_a_shape_are_right(act, does):
    images, indices = drawn([act])
    images = images[:, 0]
    seen = (indices[:, 0] == 0) | (indices[:, 1] < 2)
    torch.manual_seed(0)
    size = int(indices[:, 1].max()) + 1
    composer = FactorComposer((2, size), (SIDE, SIDE), images=images[seen])
    found = settle(composer, indices[seen], images[seen], iterations=40)
    assert found.kept
    assert composer.warps is not None
    assert [role.does for role in roles_of(composer).roles] == [Does.DRAWS, does]
    energy = images[~seen].square().mean()
    assert (composer(indices[~seen]) - images[~seen]).square().mean() < 0.03 * energy
    settle(composer, indices[seen], images[seen], iterations=40)
    assert [role.does for role in roles_of(composer).roles] == [Does.DRAWS, does]


@pytest.mark.parametrize("terms", [1, 2])
def test_what_moves_has_no_warps(terms):
    images, indices = drawn(["moves"])
    torch.manual_seed(0)
    composer = FactorComposer((2, 3), (SIDE, SIDE), terms=terms, images=images[:, 0])
    settle(composer, indices, images[:, 0], iterations=10)
    assert composer.warps is None
    assert "warps" not in composer.state_dict()


def test_roughness_is_that_of_the_images_and_not_of_parameters():
    torch.manual_seed(0)
    composer = FactorComposer((2, 3), (3, SIDE, SIDE), images=torch.rand(4, 3, SIDE, SIDE))
    for draws in ([], [0]):
        before = roughness(composer, draws)
        with torch.no_grad():
            drawn_by = composer.kernels[0] if draws else composer.drawing
            drawn_by.copy_((drawn_by + composer.identity) / 2 - composer.identity)
            composer.gains[1].copy_(2 * (1 + composer.gains[1]) - 1)
        torch.testing.assert_close(roughness(composer, draws), before)
    with torch.no_grad():
        composer.drawing.fill_(1).sub_(composer.identity)
    assert roughness(composer, []) == 0
