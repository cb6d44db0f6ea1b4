"""The penalty that makes factors choose what they do, its scale, and a training that composes."""

import numpy as np
import pytest
import torch
from torch import nn

import recombine as rc
from recombine.core.errors import InputError
from recombine.models.decoders import Composed, FactorComposer
from recombine.training.loss_terms import Batch, Composition


def bump_task(side: int = 10, contrast: float = 1.0) -> rc.Task:
    space = rc.FactorSpace(x=side, y=side)
    images = contrast * rc.scenes.Bump(space)(space.values(torch.arange(side * side))).numpy()
    labels = np.stack(np.indices((side, side)), -1).reshape(-1, 2)
    held = rc.holdouts.centre(space, 3, 6)
    return rc.Task.from_arrays(images, labels, factors=space, holdout=held, scale=1.0)


@pytest.mark.parametrize(("progress", "kappa"), [(0.0, 0.0), (0.25, 0.0), (0.75, 4.0)])
def test_the_penalty_is_its_formula(progress, kappa):
    torch.manual_seed(0)
    composer = FactorComposer((2, 3), (3, 4, 5), terms=2).double()
    composer.energy.fill_(0.25)
    total = 0.0
    for own in (*composer.kernels, *composer.gains):
        for term in range(2):
            norm = float(sum(own.detach()[v, term].square().sum() for v in range(len(own))) / len(own)) ** 0.5
            total += norm / (1 + kappa * norm)
    for own in composer.kernels:
        amounts = own.detach().abs()
        total += 0.3 * float((amounts / (1 + kappa * amounts)).sum()) / len(own)
    penalty = Composition(0.1, sparsity=0.3, sharpness=8.0, sharpen_from=0.5, anneal_from=1.0)
    batch = Batch(*[torch.zeros(1)] * 3, progress=progress)
    assert float(penalty(composer, batch).detach()) == pytest.approx(0.1 * 0.25 * total, rel=1e-6)


def test_operators_at_the_identity_cost_nothing_and_have_a_finite_gradient():
    composer = FactorComposer((2, 3), (4, 5))
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
    value = Composition(1.0)(composer)
    value.backward()
    assert value.item() < 1e-5
    assert all(p.grad is None or p.grad.isfinite().all() for p in composer.parameters())


def test_a_model_without_a_composer_is_refused():
    with pytest.raises(InputError, match=r"requires a FactorComposer in the model, for example decoder\.kind=composed"):
        Composition()(nn.Linear(2, 2))


def test_a_training_does_not_depend_on_the_images_scale():
    training = rc.recipe("composed", steps=20, settle=0)
    runs = [rc.train(Composed(task), task, training=training) for task in (bump_task(8, contrast=0.125), bump_task(8))]
    small, large = (run.losses[:, 0] for run in runs)
    torch.testing.assert_close(64 * small, large, rtol=1e-3, atol=0)


def test_seeds_together_and_alone_are_alike():
    task = bump_task(8)
    training = rc.recipe("composed", steps=6, settle=0)
    together = rc.train_seeds(Composed(task), task, [0, 1], training=training, together=True)
    alone = rc.train_seeds(Composed(task), task, [0, 1], training=training, together=False)
    for a, b in zip(together, alone):
        assert a.loss_names == ["loss", "mse", "composition"]
        torch.testing.assert_close(a.losses, b.losses, rtol=1e-3, atol=1e-7)


def test_unseen_bumps_are_composed_and_roles_told():
    task = bump_task()
    run = rc.train(Composed(task), task, training=rc.recipe("composed", steps=300))
    model = run.model
    assert isinstance(model, Composed)
    roles = model.roles(task.space.names)
    assert [roles.of(name).does.value for name in ("x", "y")] == ["moves", "moves"]
    unseen = task.space.values(task.holdout.ood_cells)
    error = (model(task.inputs(unseen)) - task.targets(unseen)).square().flatten(1).sum(1)
    assert (error < 1e-4 * task.targets(unseen).square().flatten(1).sum(1)).all()
