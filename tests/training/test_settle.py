"""The fit of exact operators at the end of a training."""

import pytest
import torch
from torch import nn

import recombine as rc
from recombine.core.errors import InputError
from recombine.models.composed.codes import between
from recombine.models.composed.roles import Does, roles_of
from recombine.models.decoders import Composed, FactorComposer
from recombine.training import settle as settled
from recombine.training.exact_fit import ExactFit
from recombine.training.settle import settle

SIDE = 8


def moved(noise: float = 0.02) -> FactorComposer:
    """A composer of bumps that has learnt to move a dot, but neither the bump nor exact zeros."""
    torch.manual_seed(0)
    composer = FactorComposer((SIDE, SIDE), (SIDE, SIDE), images=bumps()[1])
    with torch.no_grad():
        for k in range(2):
            for value in range(SIDE):
                composer.kernels[k][value, 0, 4, 4] -= 1
                composer.kernels[k][value, 0, value if k else 4, 4 if k else value] += 1
            composer.kernels[k].add_(noise * torch.randn_like(composer.kernels[k]))
    return composer


def bumps() -> tuple[torch.Tensor, torch.Tensor]:
    indices = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE))
    return indices, rc.scenes.Bump(rc.FactorSpace(x=SIDE, y=SIDE))(indices.float())


@pytest.mark.parametrize("inside", [False, True])
def test_unseen_combinations_become_exact(inside):
    composer = moved()
    model = nn.Sequential(composer, nn.Identity()) if inside else composer
    indices, images = bumps()
    seen = (indices < 5).any(1)
    found = settle(model, indices[seen], images[seen])
    assert found.kept
    assert found.after < 1e-6 * images.square().mean() < found.before
    assert (model(indices[~seen]) - images[~seen]).square().mean() < 1e-5 * images.square().mean()
    assert all(p.grad is None for p in model.parameters())


def test_a_value_with_a_wrong_shift_is_put_right():
    composer = moved(noise=0.0)
    with torch.no_grad():
        composer.kernels[0][3, 0, 4, 3], composer.kernels[0][3, 0, 4, 6] = 0, 1
    indices, images = bumps()
    seen = (indices < 5).any(1)
    assert settle(composer, indices[seen], images[seen]).after < 1e-6
    assert roles_of(composer).of("0").shifts[3] == (-1, 0)
    assert (composer(indices[~seen]) - images[~seen]).square().mean() < 1e-6


def test_roles_that_noise_hides_are_found_if_they_fit_exactly():
    composer = moved(noise=0.05)
    assert roles_of(composer).of("0").does is Does.DRAWS
    indices, images = bumps()
    seen = (indices < 5).any(1)
    assert settle(composer, indices[seen], images[seen]).after < 1e-6
    assert (composer(indices[~seen]) - images[~seen]).square().mean() < 1e-6
    assert composer.kernels[0].count_nonzero() == 0
    assert torch.equal(composer.shifts_of(0)[:, 0, 1], torch.arange(-4.0, 4.0))


def test_unseen_tints_are_as_exact_as_trained_ones():
    """The fit goes on to the rounding of float32, also if the middle hue has hardly any red."""
    torch.manual_seed(0)
    shapes = torch.zeros(2, SIDE, SIDE)
    shapes[0, 2:6, 2:6], shapes[1, 3:5, 1:7] = 1, 1
    hues = torch.tensor([[1.0, 0.1, 0.5], [0.01, 1.0, 0.7], [0.8, 0.3, 0.1]])
    indices = torch.cartesian_prod(torch.arange(2), torch.arange(3))
    images = hues[indices[:, 1], :, None, None] * shapes[indices[:, 0]].unsqueeze(1)
    seen = (indices[:, 0] == 0) | (indices[:, 1] == 1)
    composer = FactorComposer((2, 3), (3, SIDE, SIDE), images=images[seen])
    with torch.no_grad():
        composer.start.zero_(), composer.background.zero_()
        composer.kernels[0].copy_(shapes.unsqueeze(1) - composer.identity)
        composer.gains[1].copy_(hues.unsqueeze(1) - 1)
        for parameter in (*composer.kernels, *composer.gains):
            parameter.add_(0.003 * torch.randn_like(parameter))
    before = {name: value.dtype for name, value in composer.state_dict().items()}
    assert settle(composer, indices[seen], images[seen]).kept
    known, unseen = ((composer(indices[s]) - images[s]).square().mean() for s in (seen, ~seen))
    assert known < 1e-14
    assert unseen < 3 * known + 1e-15
    assert {name: value.dtype for name, value in composer.state_dict().items()} == before


STEP = 1.3  # pixels


def blobs(shape: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Nearly band-limited blobs, round or flat, at any place x in steps of 1.3 pixels."""
    r, c = torch.arange(14.0)[:, None] - 7, torch.arange(20.0)[None, :] - 7 - STEP * (x[:, None, None] - 2)
    high = 1.5 + shape[:, None, None]
    return torch.exp(-r.square() / (2 * high.square()) - c.square() / (2 * 1.6**2))


def drifting(known: tuple[int, ...] = (0, 1, 2, 3, 4, 5)) -> FactorComposer:
    """A composer that has learnt to move blobs by whole pixels only, between the known values."""
    torch.manual_seed(0)
    cells = torch.cartesian_prod(torch.arange(2.0), torch.tensor(known).float())
    composer = FactorComposer((2, 6), (14, 20), images=blobs(*cells.unbind(1)))
    composer.fit_codes(None, [torch.eye(2), between([value in known for value in range(6)])])
    with torch.no_grad():
        composer.start.zero_(), composer.background.zero_()
        drawn = blobs(torch.arange(2.0), torch.full((2,), 2.0)).roll(3, dims=2)  # to the centre
        composer.kernels[0].copy_(drawn.unsqueeze(1) - composer.identity)
        for value in range(6):
            composer.kernels[1][value, 0, 7, 10] -= 1
            composer.kernels[1][value, 0, 7, 7 + round(STEP * (value - 2))] += 1
        composer.kernels[1].add_(0.01 * torch.randn_like(composer.kernels[1]))
    return composer


def test_shifts_by_fractions_of_a_pixel_are_fitted():
    composer = drifting()
    cells = torch.cartesian_prod(torch.arange(2), torch.arange(6))
    images = blobs(*cells.unbind(1))
    seen = (cells[:, 0] == 0) | (cells[:, 1] < 3)
    found = settle(composer, cells[seen], images[seen])
    assert found.kept
    assert found.after < 1e-6 * images.square().mean()
    steps = composer.shifts_of(1)[:, 0].diff(dim=0)
    torch.testing.assert_close(steps, torch.tensor([[0.0, STEP]]).expand(5, 2), rtol=0, atol=1e-3)
    assert (composer(cells[~seen]) - images[~seen]).square().mean() < 1e-6 * images.square().mean()
    assert f"1 moves it (-{3 * STEP:.3g} … +{2 * STEP:.3g} columns)" in str(roles_of(composer))
    assert not composer.shifts.requires_grad


def test_values_between_trained_ones_are_moved_to_their_places():
    """x = 3 is never trained, and no number between two values is. Objects move there and do not cross-fade."""
    known = (0, 1, 2, 4, 5)
    composer = drifting(known)
    cells = torch.cartesian_prod(torch.arange(2.0), torch.tensor(known).float())
    images = blobs(*cells.unbind(1))
    assert settle(composer, cells / torch.tensor([1.0, 5.0]), images).kept
    unseen = torch.cartesian_prod(torch.arange(2.0), torch.tensor([0.5, 1.25, 3.0, 3.3, 4.7]))
    truth = blobs(*unseen.unbind(1))
    assert (composer(unseen / torch.tensor([1.0, 5.0])) - truth).square().mean() < 1e-5 * truth.square().mean()


def test_a_simplification_that_fits_worse_is_undone():
    """Blurs of several widths are neither shifts nor gains, but are taken for gains."""
    composer = FactorComposer((2, 1), (SIDE, SIDE))
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
        composer.kernels[0][1, 0, 4, 4] = 0.5
        composer.kernels[0][1, 0, 4, 5] = 0.1
    indices = torch.tensor([[0, 0], [1, 0]])
    images = composer(indices).detach()
    before = {name: value.clone() for name, value in composer.state_dict().items()}
    found = settle(composer, indices, images)
    assert not found.kept
    assert found.after > found.before
    for name, value in composer.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_operators_without_kernels_are_left_alone():
    indices, images = bumps()
    composer = FactorComposer((SIDE, SIDE), (SIDE, SIDE), operators=["map"])
    before = composer.maps[0].detach().clone()
    assert not settle(composer, indices, images).kept
    torch.testing.assert_close(composer.maps[0].detach(), before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": torch.zeros(0, 2).long()}, "Got none"),
        ({"images": torch.zeros(3, 1, SIDE, SIDE)}, r"shape \(3, 8, 8\). Got images of shape \(3, 1, 8, 8\)"),
        ({"images": torch.zeros(2, SIDE, SIDE)}, r"Got images of shape \(2, 8, 8\)"),
        ({"images": torch.full((3, SIDE, SIDE), torch.nan)}, "must be finite"),
        ({"iterations": -1}, "0 or more iterations. Got -1"),
    ],
)
def test_bad_examples_are_named_and_change_nothing(change, message):
    composer = moved()
    before = composer.kernels[0].detach().clone()
    given = {"inputs": torch.zeros(3, 2).long(), "images": torch.zeros(3, SIDE, SIDE)}
    with pytest.raises(InputError, match=message):
        settle(composer, **given | change)
    assert torch.equal(composer.kernels[0], before)


def test_a_network_is_fitted_as_it_will_be_used():
    """Without dropout, and with the statistics that training has found; its mode is kept."""
    composer = moved()
    frozen, norm = nn.Dropout(0.5).eval(), nn.BatchNorm2d(1)
    model = nn.Sequential(composer, frozen, nn.Dropout(0.5), nn.Unflatten(1, (1, SIDE)), norm, nn.Flatten(1, 2))
    modes = [own.training for own in model.modules()]
    indices, images = bumps()
    settle(model, indices, images, iterations=2)
    assert [own.training for own in model.modules()] == modes
    assert norm.num_batches_tracked == 0


def test_the_recipe_settles_on_trained_examples_only(monkeypatch):
    task = rc.Task(
        rc.scenes.Bump(space := rc.FactorSpace(x=6, y=6)),
        rc.encodings.OneHot(space),
        rc.holdouts.centre(space, 2, 3),
    )
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(
        "recombine.training.recipes.composed.settle", lambda model, inputs, images, **_: seen.append(inputs)
    )
    examples = {"cells": {"count": 5}}
    for settings in ({}, {"settle": 0}, {"loss": {"kind": "l1"}}):
        rc.train(Composed(task), task, training=rc.recipe("composed", steps=2, examples=examples, **settings))
    [inputs] = seen
    assert len(inputs) == 5
    held = task.inputs(task.space.values(task.holdout.ood_cells))
    assert not (inputs[:, None] == held[None]).all(-1).any()


def squares() -> tuple[FactorComposer, torch.Tensor, torch.Tensor]:
    """Two opaque squares on one line: a composer that draws them, and all indices and images."""
    torch.manual_seed(0)
    composer = FactorComposer((4, 4), (3, 12, 12), terms=2, blend="over")
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
        for k in range(2):
            for value in range(4):
                composer.kernels[k][value, k, 6, 6] -= 1
                composer.kernels[k][value, k, 6, 3 + 2 * value] += 1
        composer.drawing[0, 4:8, 4:8], composer.drawing[1, 5:9, 5:8] = 1, 1
        composer.drawing.sub_(composer.identity)
        composer.colours.copy_(torch.tensor([[0.0, -0.8, -0.8], [-0.8, 0.0, -0.8]]))
    indices = torch.cartesian_prod(torch.arange(4), torch.arange(4))
    return composer, indices, composer(indices).detach().round(decimals=3)


def test_terms_that_cover_each_other_are_put_in_order():
    """Training has put the square in front behind the other."""
    composer, indices, images = squares()
    composer.fit_background(images)
    composer.reorder([1, 0])
    assert settle(composer, indices, images).after < 1e-5 * images.var()


def test_a_background_that_no_trained_image_shows_is_not_fitted():
    """One of the squares covers some pixels in all trained images. What training puts there is not kept."""
    composer, indices, images = squares()
    seen = (indices == 0).any(1)
    composer.fit_background(images[seen])
    always = (images[seen] != 0).any(1).all(0)
    assert always.sum() == 9
    with torch.no_grad():
        composer.background[:, always] = 0.7
    assert settle(composer, indices[seen], images[seen]).after < 1e-5 * images.var()
    assert (composer(indices[~seen]) - images[~seen]).square().mean() < 1e-5 * images.var()


def test_hidden_pixels_of_the_background_are_reset_and_others_fitted():
    composer, indices, images = squares()
    composer.fit_background(images)
    seen = (indices == 0).any(1)
    fit = ExactFit(indices[seen], images[seen], float(composer.energy), 50, 1e-16)
    shown = composer.background_shown(composer.weights(indices[seen]))[0]
    assert (shown < 1e-6).sum() == 9
    with torch.no_grad():
        composer.background.fill_(0.1)
    free = {own: torch.zeros_like(own) for own in composer.parameters()}
    settled._with_hidden_background(settled._Candidate(composer, fit.error(composer), (), free), fit)
    assert (composer.background[:, shown < 0.5] == 0).all()
    assert composer.background[:, shown > 0.5].abs().max() < 1e-3
