"""Composers whose operators are nearly exact become exact."""

import torch

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.roles import Does, roles_of
from recombine.models.composed.simplify import simplify


def nearly_exact() -> FactorComposer:
    """Factors: shape (draws), x (moves), hue (tints), name (nothing), each with a little noise."""
    torch.manual_seed(0)
    composer = FactorComposer((2, 3, 3, 2), (3, 12, 12))
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.normal_(std=1e-3)
        composer.kernels[0][0, 0, 5:8, 5:8] += 1
        composer.kernels[0][1, 0, 6, 3:9] += 1
        for value, shift in enumerate((-2, 0, 3)):
            composer.kernels[1][value, 0, 6, 6] -= 1
            composer.kernels[1][value, 0, 6, 6 + shift] += 1
        composer.gains[2][:, 0] += torch.tensor([[0.0, -0.9, -0.9], [-0.9, 0, -0.9], [-0.9, -0.9, 0]])
    return composer


def test_roles_become_exact_operators():
    composer = nearly_exact()
    free = simplify(composer)
    shape, x, hue, name = composer.kernels
    assert [len(own.nonzero()) for own in (x, hue, name)] == [0, 0, 0]
    assert composer.shifts_of(1)[:, 0].tolist() == [[0, -2], [0, 0], [0, 3]]
    assert composer.shifts.count_nonzero() == 2
    assert composer.gains[0].count_nonzero() == composer.gains[1].count_nonzero() == 0
    torch.testing.assert_close((1 + composer.gains[2][:, 0]).square().mean(0), torch.ones(3))
    assert composer.background.count_nonzero() == 0
    fitted = {what: bool(free[own].any()) for what, own in (("shape", shape), ("x", x), ("hue", hue), ("name", name))}
    assert fitted == {"shape": True, "x": False, "hue": False, "name": False}
    assert free[composer.gains[2]].sum() == 3 * 3
    assert not free[composer.background].any()


def test_without_a_factor_that_draws_the_object_is_fitted():
    torch.manual_seed(0)
    composer = FactorComposer((3, 3), (8, 8))
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
        for k in range(2):
            for value, shift in enumerate((-1, 0, 1)):
                composer.kernels[k][value, 0, 4, 4] -= 1
                composer.kernels[k][value, 0, 4 + k * shift, 4 + (1 - k) * shift] += 1
    free = simplify(composer)
    assert free[composer.drawing].all()
    with torch.no_grad():
        empty = composer(torch.tensor([[0, 0], [2, 1]]))
        composer.drawing[0] += composer.identity
    torch.testing.assert_close(empty, torch.zeros(2, 8, 8))
    assert [role.does for role in roles_of(composer).roles] == [Does.MOVES, Does.MOVES]
