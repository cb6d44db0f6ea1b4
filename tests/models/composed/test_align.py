"""Shifts of several values that are wrong together are found from how far each image is moved."""

import torch

from recombine.models.composed.align import align, redraw, summands
from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.register import register
from recombine.models.composed.roles import Roles, roles_of

SIDE = 12
CELLS = torch.tensor([[0, 0], [0, 1], [1, 1], [1, 2], [2, 2], [2, 0], [3, 0], [3, 3], [3, 4], [4, 3], [4, 4]])


def moved() -> tuple[FactorComposer, Roles, torch.Tensor]:
    """A composer of an object that two factors move, its roles and the images of some cells."""
    torch.manual_seed(0)
    composer = FactorComposer((5, 5), (SIDE, SIDE))
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
        composer.drawing[0, 5:8, 5:7], composer.drawing[0, 6, 6] = 1, 2
        composer.drawing.sub_(composer.identity)
        composer.shifts_of(0)[:, 0, 1] = composer.shifts_of(1)[:, 0, 0] = torch.arange(5.0) - 2
        return composer, roles_of(composer), composer(CELLS).clone()


def test_values_that_are_wrong_together_are_put_right_together():
    """All images of x = 4 show y = 3 or 4, which are wrong by the opposite shift."""
    composer, _, images = moved()
    with torch.no_grad():
        composer.shifts_of(0)[4] += torch.tensor([3.0, -2.0])
        composer.shifts_of(1)[3:] -= torch.tensor([3.0, -2.0])
    wrong = roles_of(composer)
    state = {name: own.clone() for name, own in composer.state_dict().items()}
    register(composer, wrong, CELLS, images)
    assert (composer(CELLS) - images).square().mean() > 1e-2 * images.square().mean()
    composer.load_state_dict(state)
    found = align(composer, wrong, CELLS, images)
    torch.testing.assert_close(composer(CELLS), images)
    unseen = torch.cartesian_prod(torch.arange(5), torch.arange(5))
    torch.testing.assert_close(composer(unseen), moved()[0](unseen))
    assert align(composer, found, CELLS, images) == found


def test_an_object_at_the_border_is_drawn_anew_in_the_middle():
    composer, _, images = moved()
    with torch.no_grad():
        composer.shifts_of(0)[:, 0, 0] += 5
        composer.drawing.copy_(composer.drawing.add(composer.identity).roll(-5, dims=1) - composer.identity)
    torch.testing.assert_close(composer(CELLS), images)
    roles = redraw(composer, roles_of(composer), CELLS)
    assert (composer.drawing + composer.identity).count_nonzero() == 0
    sums = composer.shifts_of(0)[CELLS[:, 0], 0] + composer.shifts_of(1)[CELLS[:, 1], 0]
    torch.testing.assert_close(sums.amin(0), -sums.amax(0))
    assert torch.equal(torch.tensor(roles.of("0").shifts).flip(-1), composer.shifts_of(0)[:, 0])


def test_sums_determine_vectors_but_for_those_of_a_few_images():
    cells = torch.cartesian_prod(torch.arange(5), torch.arange(5))
    shown = torch.zeros(25, 11, dtype=torch.double)  # the last value is shown nowhere
    shown[torch.arange(25), cells[:, 0]] = shown[torch.arange(25), 5 + cells[:, 1]] = 1
    truth = torch.randint(-9, 9, (11, 2), generator=torch.Generator().manual_seed(0)).double()
    sums = shown @ truth
    sums[[3, 8, 17]] += torch.tensor([20.0, -30.0])
    found = summands(shown, sums)
    torch.testing.assert_close(shown @ found, shown @ truth, rtol=0, atol=0.1)
    torch.testing.assert_close(found, found.round(), rtol=0, atol=0.1)
    assert found[10].eq(0).all()
