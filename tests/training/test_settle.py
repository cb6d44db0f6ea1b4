"""The fit of exact operators at the end of a training."""

import pytest
import torch
from torch import nn

import recombine as rc
from recombine.models.composed.roles import Does, roles_of
from recombine.models.decoders import Composed, FactorComposer
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
    assert composer.kernels[0].count_nonzero() == 2 * (SIDE - 1), "a dot taken away and one put elsewhere"


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


def test_terms_that_cover_each_other_are_put_in_order():
    """Two opaque squares on one line. Training has put the front one behind."""
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
    images = composer(indices).detach()
    composer.fit_background(images)
    composer.reorder([1, 0])
    assert settle(composer, indices, images).after < 1e-5 * images.var()
