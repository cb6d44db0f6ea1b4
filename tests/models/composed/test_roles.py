"""Roles of composers that were set by hand."""

import pytest
import torch

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.roles import Does, roles_of


@pytest.fixture
def composer() -> FactorComposer:
    """Factors: shape (draws), x (moves), hue (tints), brightness (scales), name (nothing)."""
    made = FactorComposer((2, 3, 3, 2, 2), (3, 12, 12))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
        made.kernels[0][0, 0, 5:8, 5:8] = 1
        made.kernels[0][1, 0, 6, 3:9], made.kernels[0][1, 0, 3:9, 6] = 1, 1
        for value, shift in enumerate((-2, 0, 3)):
            made.kernels[1][value, 0, 6, 6] -= 1
            made.kernels[1][value, 0, 6, 6 + shift] += 1
        made.gains[2][:, 0] = torch.tensor([[0.0, -0.9, -0.9], [-0.9, 0, -0.9], [-0.9, -0.9, 0]])
        made.gains[3][:, 0] = torch.tensor([-0.5, 0.0]).unsqueeze(1)
    return made


def test_each_factor_does_what_it_was_made_to(composer):
    names = ["shape", "x", "hue", "brightness", "name"]
    roles = roles_of(composer, names)
    found = [roles.of(name).does for name in names]
    assert found == [Does.DRAWS, Does.MOVES, Does.TINTS, Does.SCALES, Does.NOTHING]
    assert roles.of("x").shifts == [(-2, 0), (0, 0), (3, 0)]
    torch.testing.assert_close(torch.tensor(roles.of("brightness").gains[0]), torch.full((3,), 0.5))
    assert "x moves it (-2 … +3 columns)" in str(roles)
    assert "name does nothing" in str(roles)


def test_roles_are_told_for_each_term():
    composer = FactorComposer((3, 3), (8, 8), terms=2)
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
        for term in range(2):  # factor 0 moves the first term sideways, factor 1 the second one up and down
            for value, shift in enumerate((-2, 0, 2)):
                composer.kernels[term][value, term, 4, 4] -= 1
                composer.kernels[term][value, term, 4 + term * shift, 4 + (1 - term) * shift] += 1
    roles = roles_of(composer)
    assert [[roles.of(str(k), t).does for k in (0, 1)] for t in (0, 1)] == [
        [Does.MOVES, Does.NOTHING],
        [Does.NOTHING, Does.MOVES],
    ]
    assert str(roles).splitlines()[1].startswith("term 1: 0 does nothing; 1 moves it (-2 … +2 rows)")


def test_what_never_moves_does_not_hide_a_movement():
    """A term may draw a part of the background, which the background takes off again."""
    composer = FactorComposer((7, 2), (12, 12))
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
        for value in range(7):
            composer.kernels[0][value, 0, 6, 6] -= 1
            composer.kernels[0][value, 0, 6, 3 + value] += 1
        composer.kernels[0][:, 0, 1:3, 1:11] += 0.5
    role = roles_of(composer).of("0")
    assert role.does is Does.MOVES
    assert role.shifts == [(shift, 0) for shift in range(-3, 4)]
