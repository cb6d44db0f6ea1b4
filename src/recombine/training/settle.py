"""The last step of training a composer: exact operators, then a fit without penalty.

    settle(model, inputs, images)                           # after a training with the penalty `Composition`

The penalty finds out what each factor does, but it also biases the operators, and a stochastic optimizer leaves noise
on entries that should be zero. `settle` replaces the operators by the exact ones that their roles name
(`recombine.models.composed.simplify`) and fits what is left to the trained images by L-BFGS, first with the background
fixed. A fit that ends early leaves its error where the trained images say least, which is where unseen combinations
suffer most. So it goes on, in double precision, until the rounding of single precision hides the error. The result is
kept only if it fits the trained images at least as well as before. Held-out images play no part.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from itertools import permutations, product

import torch
from torch import Tensor, nn

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.register import register
from recombine.models.composed.roles import EXPLAINED, Roles, roles_of
from recombine.models.composed.simplify import simplify
from recombine.models.decoders.composed import Composed

HISTORY = 100  # gradients that L-BFGS remembers
STUCK = 1e-16  # change of the error, in units of the images' energy, at which the fit ends
LEVELS = (0.5, EXPLAINED)  # shares of the changes that a role must explain; the simplest roles are tried first
EXACT = 1e-4  # error, in units of the images' energy, below which roles are taken to be the right ones
ROUNDS = 3  # of correcting shifts and fitting again
SINGLE_ONLY = ("mps",)  # devices without double precision


@dataclass(frozen=True)
class Settled:
    """What `settle` did.

    Attributes:
        before, after: Mean squared error on the given images. `after` is that of the simplified model, kept or not.
        kept: Whether the simplified model was kept.
    """

    before: float
    after: float
    kept: bool


def settle(
    model: nn.Module, inputs: Tensor, images: Tensor, *, iterations: int = 100, tolerance: float = 1e-16
) -> Settled:
    """Simplify every `FactorComposer` of a model and fit the model to images, in place.

    Args:
        model: Any network with composers in it. One whose operators include no kernels is left as it is.
        inputs: Of trained examples, as the model takes them.
        images: Their targets. Give trained ones only.
        iterations: Of L-BFGS, with the background fixed and again with all that is not fixed.
        tolerance: The fit ends when the squared error is below this share of the images' energy. The default is below
            the rounding errors of float32.
    """
    before = _error(model, inputs, images)
    if not composers_of(model) or not iterations:
        return Settled(before, before, kept=False)
    saved = copy.deepcopy(model.state_dict())
    exact, exact_images, exact_inputs = model, images, inputs
    if images.device.type not in SINGLE_ONLY:
        exact, exact_images = copy.deepcopy(model).double(), images.double()
        exact_inputs = inputs.double() if inputs.is_floating_point() else inputs
    simplest = partial(_simplest, inputs=exact_inputs, images=exact_images, iterations=iterations, tolerance=tolerance)
    best, error = simplest(exact)
    if error > EXACT:  # the fit shows the roles more clearly than training did
        again, new_error = simplest(best)
        best = again if new_error < error else best
    model.load_state_dict(best.state_dict())
    after = _error(model, inputs, images)
    kept = after <= before
    if not kept:
        model.load_state_dict(saved)
    return Settled(before, after, kept)


def composers_of(model: nn.Module) -> list[FactorComposer]:
    """The composers with kernels that a model has."""
    return [module for module in model.modules() if isinstance(module, FactorComposer) and module.kernels]


def _simplest(
    model: nn.Module, inputs: Tensor, images: Tensor, *, iterations: int, tolerance: float
) -> tuple[nn.Module, float]:
    """A copy with the simplest roles that fit exactly, or else with those that fit best, and its error in units of the
    images' energy. Of terms that cover each other, every order is tried."""
    best, least, tried = model, float("inf"), []
    orders = [permutations(range(own.terms)) if own.blend == "over" else [()] for own in composers_of(model)]
    for level, chosen in product(LEVELS, list(product(*orders))):
        candidate = copy.deepcopy(model)
        for composer, order in zip(composers_of(candidate), chosen):
            if order:
                composer.reorder(order)
        roles = [roles_of(composer, explained=level) for composer in composers_of(candidate)]
        kinds = (chosen, [[role.does for role in own.roles] for own in roles])
        if kinds in tried:
            continue
        tried.append(kinds)
        error = _simplified(candidate, roles, inputs, images, iterations=iterations, tolerance=tolerance)
        if error < least:
            best, least = candidate, error
        if error <= EXACT:
            break
    return best, least


def _simplified(
    model: nn.Module, roles: list[Roles], inputs: Tensor, images: Tensor, *, iterations: int, tolerance: float
) -> float:
    """Give a model's composers exact operators and fit the rest. The error, in units of the images' energy."""
    free: dict[nn.Parameter, Tensor] = {}
    composers = composers_of(model)
    for composer, own in zip(composers, roles):
        free |= simplify(composer, own)
    energy = torch.stack([composer.energy for composer in composers]).mean()
    fit = partial(_fit, model, free, inputs, images, energy=energy, iterations=iterations, tolerance=tolerance)
    if not fit():
        for composer in composers:
            free[composer.background] = torch.ones_like(composer.background)
        fit()
    error = _error(model, inputs, images) / float(energy)
    if error > EXACT and _is_composer(model):
        for _ in range(ROUNDS):
            [before] = roles
            roles = [register(composers[0], before, inputs, images)]
            if roles == [before]:
                break
            fit()
        error = _error(model, inputs, images) / float(energy)
    return error


def _is_composer(model: nn.Module) -> bool:
    """Whether a model's images are those of a composer, with nothing behind it."""
    return isinstance(model, FactorComposer) or (isinstance(model, Composed) and not len(model.layers))


class _Reached(Exception):
    """The error is small enough."""


def _fit(
    model: nn.Module,
    free: dict[nn.Parameter, Tensor],
    inputs: Tensor,
    images: Tensor,
    *,
    energy: Tensor,
    iterations: int,
    tolerance: float,
) -> bool:
    """Minimize the squared error over the entries that are free. Whether it came below the tolerance."""
    parameters = [p for p in model.parameters() if p.requires_grad and (p not in free or free[p].any())]
    optimizer = torch.optim.LBFGS(
        parameters,
        max_iter=iterations,
        history_size=HISTORY,
        tolerance_grad=0,
        tolerance_change=STUCK,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        loss = (model(inputs) - images).square().mean() / energy
        if loss.detach() <= tolerance:
            raise _Reached
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True)):
            parameter.grad = gradient * free[parameter] if gradient is not None and parameter in free else gradient
        return loss.detach()

    try:
        optimizer.step(closure)  # pyright: ignore[reportArgumentType] (torch's stubs ask for a float)
    except _Reached:  # the parameters are those of the last evaluation
        return True
    return False


def _error(model: nn.Module, inputs: Tensor, images: Tensor) -> float:
    with torch.no_grad():
        return float((model(inputs) - images).square().mean())
