"""Shifts of single values are corrected by their images, whether terms add up or cover each other."""

import pytest
import torch

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.register import register
from recombine.models.composed.roles import roles_of


@pytest.mark.parametrize("blend", ["add", "over"])
def test_a_value_that_is_a_pixel_off_is_put_back(blend):
    composer = FactorComposer((4, 4), (12, 12), terms=2, blend=blend)
    shifts = [(-3.0, 0.0), (-1.0, 0.0), (0.0, 0.0), (3.0, 0.0)]
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
        for k in range(2):
            composer.shifts_of(k)[:, k] = torch.tensor(shifts).flip(-1)
        composer.drawing[0, 4:8, 5:7], composer.drawing[1, 5:9, 5:8] = 1, 1
        composer.drawing.sub_(composer.identity)
        composer.colours[1] = -0.5
    indices = torch.cartesian_prod(torch.arange(4), torch.arange(4))
    images = composer(indices).detach()
    with torch.no_grad():
        composer.shifts_of(1)[0, 1] = torch.tensor([1.0, -2.0])
    roles = register(composer, roles_of(composer), indices, images)
    assert roles.of("1", term=1).shifts == shifts
    torch.testing.assert_close(composer(indices), images)
