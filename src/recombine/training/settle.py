"""The last step of training a composer: exact operators, then a fit without penalty.

    settle(model, inputs, images)                           # after a training with the penalty `Composition`

The penalty finds out what each factor does, but it also biases the operators, and a stochastic optimizer leaves noise
on entries that should be zero. `settle` replaces the operators by the exact ones that their roles name
(`recombine.models.composed.simplify`) and fits what is left to the trained images by L-BFGS, first with the background
fixed. Shifts are by whole pixels; if these do not fit, they are fitted as well and may be fractions of a pixel. A fit
that ends early leaves errors where the trained images constrain it least, and these errors affect unseen combinations
most. The fit therefore continues in double precision until its error is below the rounding of single precision. If no
exact fit is found, or several factors draw, factors that resize or turn what others draw are looked for. The
result is kept only if it fits the trained images at least as well as before. Held-out images are not used.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from typing import Any

import torch
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.models.composed.align import align, redraw
from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.register import register
from recombine.models.composed.roles import EXPLAINED, Does, Roles, roles_of
from recombine.models.composed.simplify import simplify
from recombine.models.decoders.composed import Composed
from recombine.models.evaluation_mode import evaluation_mode
from recombine.training.exact_fit import ExactFit, composers_of, mean_squared_error
from recombine.training.warped_fit import fit_warps

LEVELS = (0.5, EXPLAINED)  # shares of the changes that a role must explain; the simplest roles are tried first
EXACT = 1e-4  # error, in units of the images' energy, below which roles are taken to be the right ones
TURNS = 10  # at most, of aligning all values and fitting again
BRIEF = 30  # iterations of such a fit
SHOWN = 0.5  # share that the background must have in a pixel of some image to be fitted there
ROUNDS = 3  # of correcting shifts and fitting again
DARK = (3e-3, 1e-9)  # shares of the brightest pixel of a drawing below which a pixel is dark
WORTHWHILE = 0.9  # share of the error that a round leaves at most, if another one follows
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

    The model is fitted in evaluation mode, in which layers such as dropout are deterministic; its mode is kept.

    Args:
        model: Any network with composers in it. One whose operators include no kernels is left as it is.
        inputs: Of trained examples, as the model takes them.
        images: Their targets. Give trained ones only.
        iterations: Of L-BFGS, with the background fixed and again with all that is not fixed.
        tolerance: The fit ends when the squared error is below this share of the images' energy. The default is below
            the rounding errors of float32.
    """
    if iterations < 0:
        raise InputError(f"Settling takes 0 or more iterations. Got {iterations}.", "iterations")
    with evaluation_mode(model):
        _check(model, inputs, images)
        return _settled(model, inputs, images, iterations, tolerance)


def _settled(model: nn.Module, inputs: Tensor, images: Tensor, iterations: int, tolerance: float) -> Settled:
    before = mean_squared_error(model, inputs, images)
    composers = composers_of(model)
    if not composers or not iterations:
        return Settled(before, before, kept=False)
    saved = copy.deepcopy(model.state_dict())
    energy = float(torch.stack([composer.energy for composer in composers]).mean())
    exact = model
    fit = ExactFit(inputs, images, energy, iterations, tolerance)
    if images.device.type not in SINGLE_ONLY:
        exact, numbers = copy.deepcopy(model).double(), inputs.double() if inputs.is_floating_point() else inputs
        fit = replace(fit, inputs=numbers, images=images.double())
    best = _warped(exact, fit, before / energy, _simplest(exact, fit))
    warped = any(own.warps is not None for own in composers_of(best.model))
    if best.error > EXACT and not warped:  # the fit shows the roles more clearly than training did
        best = min(best, _simplest(best.model, fit), key=_error)
    model.load_state_dict(best.model.state_dict())
    after = mean_squared_error(model, inputs, images)
    kept = after <= before
    if not kept:
        model.load_state_dict(saved)
    return Settled(before, after, kept)


def _check(model: nn.Module, inputs: Tensor, images: Tensor) -> None:
    """Raise unless images are finite and have the shape of the model's outputs."""
    if not len(inputs):
        raise InputError("Settling requires trained examples. Got none.", "inputs")
    with torch.no_grad():
        shape = (len(inputs), *model(inputs[:1]).shape[1:])
    if tuple(images.shape) != shape:
        raise InputError(
            f"For these inputs the model returns images of shape {shape}. Got images of shape {tuple(images.shape)}.",
            "images",
        )
    if not images.isfinite().all():
        raise InputError("Images must be finite. Some are NaN or infinite.", "images")


@dataclass(frozen=True)
class _Candidate:
    """A simplified model.

    Attributes:
        model: The model, fitted.
        error: Its mean squared error, in units of the images' energy.
        roles: Of each composer.
        free: For each of the composers' tensors, ones at the entries that were fitted.
    """

    model: nn.Module
    error: float = float("inf")
    roles: tuple[Roles, ...] = ()
    free: dict[Tensor, Tensor] = field(default_factory=dict)


def _error(candidate: _Candidate) -> float:
    return candidate.error


def _simplest(model: nn.Module, fit: ExactFit) -> _Candidate:
    """A copy with the simplest roles that fit exactly, or else with those that fit best. Of terms that cover each
    other, every order is tried. If shifts by whole pixels do not suffice, the best order gets shifts by fractions."""
    orders = [permutations(range(own.terms)) if own.blend == "over" else [()] for own in composers_of(model)]
    choices = list(product(*orders))
    tried: list[tuple[tuple[Any, ...], list[list[Does]]]] = []
    best = _Candidate(model)
    for level in LEVELS:
        own = _Candidate(model)
        for chosen in choices:
            candidate = copy.deepcopy(model)
            for composer, order in zip(composers_of(candidate), chosen):
                if order:
                    composer.reorder(order)
            roles = [roles_of(composer, explained=level).rounded() for composer in composers_of(candidate)]
            kinds = (chosen, _kinds(roles))
            if kinds in tried:
                continue
            tried.append(kinds)
            own = min(own, _simplified(candidate, roles, fit), key=_error)
            if own.error <= EXACT:
                break
        if EXACT < own.error < float("inf"):
            own = _with_motion(model, own, fit, tried)
        if EXACT < own.error < float("inf"):
            own = _with_fractions(own, fit)
        best = min(best, own, key=_error)
        if best.error <= EXACT:
            break
    return _with_hidden_background(best, fit)


def _simplified(model: nn.Module, roles: list[Roles], fit: ExactFit) -> _Candidate:
    """Give a model's composers exact operators, with shifts by whole pixels, and fit the rest."""
    free: dict[Tensor, Tensor] = {}
    composers = composers_of(model)
    for composer, own in zip(composers, roles):
        free |= simplify(composer, own)
    error = fit(model, free)
    if error > EXACT and _is_composer(model) and composers[0].blend == "add":
        roles, error = _aligned(model, roles, fit, free, error)
    if error > fit.tolerance:
        for composer in composers:
            free[composer.background] = torch.ones_like(composer.background)
        error = fit(model, free)
    if error > EXACT and _is_composer(model):
        for _ in range(ROUNDS):
            [before] = roles
            roles = [register(composers[0], before, fit.inputs, fit.images)]
            if roles == [before]:
                break
            error = fit(model, free)
    return _Candidate(model, error, tuple(roles), free)


def _aligned(
    model: nn.Module, roles: list[Roles], fit: ExactFit, free: dict[Tensor, Tensor], error: float
) -> tuple[list[Roles], float]:
    """Align all values of a fitted model and fit it again, in turns, as long as this helps; in place. Unless the fit
    becomes exact, the model is left as it was.

    Returns:
        The roles and the error.
    """
    [composer], [own] = composers_of(model), roles
    brief, saved, after = replace(fit, iterations=BRIEF), copy.deepcopy(model.state_dict()), error
    for _ in range(TURNS):
        found = align(composer, own, fit.inputs, fit.images)
        if found == own:
            break
        own = redraw(composer, found, fit.inputs)
        before, after = after, brief(model, free)
        if after <= EXACT:
            return [own], fit(model, free)
        if after > WORTHWHILE * before:
            break
    model.load_state_dict(saved)
    return roles, error


def _with_motion(model: nn.Module, best: _Candidate, fit: ExactFit, tried: list[Any]) -> _Candidate:
    """Suppose that factors move terms although this does not show, because training has hardly begun to fit. A
    supposition is kept if the fit is exact; otherwise the given candidate is.

    Aligning needs no shifts to start from. The first supposition concerns the factor that is likeliest to move, the
    second one also the next, and so on. Factors that draw come before those that tint or scale."""
    if not _is_composer(model) or composers_of(model)[0].blend != "add":
        return best
    [roles] = best.roles
    order = sorted(
        (at for at, role in enumerate(roles.roles) if role.does not in (Does.MOVES, Does.NOTHING)),
        key=lambda at: (roles.roles[at].does is not Does.DRAWS, -roles.roles[at].explained[Does.MOVES.value]),
    )
    for at in order:
        supposed = list(roles.roles)
        supposed[at] = replace(supposed[at], does=Does.MOVES)
        roles = Roles(tuple(supposed))
        kinds = ((), _kinds([roles]))
        if kinds not in tried:
            tried.append(kinds)
            found = _simplified(copy.deepcopy(model), [roles], fit)
            if found.error <= EXACT:
                return found
    return best


def _kinds(roles: list[Roles]) -> list[list[Does]]:
    return [[role.does for role in own.roles] for own in roles]


def _with_fractions(candidate: _Candidate, fit: ExactFit) -> _Candidate:
    """Fit the shifts of factors that move as well, in place.

    A shift by a fraction of a pixel makes ripples. Pixels that hardly any trained image shows would be fitted to cancel
    them and would appear in unseen images. So pixels that whole shifts left dark stay dark. If the fit is then exact,
    there is nothing to cancel, and only those pixels stay dark that no trained image shows."""
    free, composers = candidate.free, composers_of(candidate.model)
    drawings = [(own, drawn) for own in composers for drawn in (*own.kernels, own.drawing)]
    shown = {drawn: (drawn.detach() + own.identity).abs() for own, drawn in drawings}
    for composer, roles in zip(composers, candidate.roles):
        for at, role in enumerate(roles.roles):
            if role.does is Does.MOVES:
                mask = free[composer.shifts].split(composer.factor_sizes)[at % len(composer.factor_sizes)]
                mask[:, role.term] = 1
    if not any(free[composer.shifts].any() for composer in composers):
        return candidate
    error = candidate.error
    for dark in DARK:
        own = free | {drawn: free[drawn] * (light > dark * light.max()) for drawn, light in shown.items()}
        for _ in range(ROUNDS):
            before, error = error, fit(candidate.model, own)
            if error <= fit.tolerance or error > WORTHWHILE * before:
                break
        if error > EXACT:
            break
    return replace(candidate, error=error)


def _with_hidden_background(candidate: _Candidate, fit: ExactFit) -> _Candidate:
    """A candidate whose background keeps its first estimate at pixels that no trained image shows.

    What is fitted there only cancels errors of the terms in front of it, and appears in unseen images. The candidate is
    returned as it was if its error grows by more than a ninth."""
    model, before, own = candidate.model, candidate.error, candidate.free
    if not own or any(composer.blend == "add" for composer in composers_of(model)):
        return candidate
    saved, error = copy.deepcopy(model.state_dict()), before
    for _ in range(ROUNDS):
        hidden = False
        for composer in composers_of(model):
            with torch.no_grad():
                shown = composer.background_shown(composer.weights(fit.inputs)) > SHOWN
                fixed = torch.where(shown, composer.background, composer.start / composer.contrast)
                hidden |= bool((fixed != composer.background).any())
                composer.background.copy_(fixed)
            own = {**own, composer.background: shown.to(composer.background)}
        if not hidden:
            break
        error = fit(model, own)
    if error * WORTHWHILE <= max(before, fit.tolerance):
        return replace(candidate, error=error, free=own)
    model.load_state_dict(saved)
    return candidate


def _warped(model: nn.Module, fit: ExactFit, before: float, best: _Candidate) -> _Candidate:
    """A copy of the trained model with factors that resize or turn, if the images show such and it fits them at least
    as well as the model; else the best candidate without. It is tried if that one is not exact or several factors
    draw: few operators that explain the images are to be preferred to many that do."""
    drawn = sum(role.does is Does.DRAWS for roles in best.roles for role in roles.roles)
    if not _is_composer(model) or (best.error <= EXACT and drawn < 2):
        return best
    found = fit_warps(model, fit)
    return best if found is None or found.error > before else _Candidate(found.model, found.error, (found.roles,))


def _is_composer(model: nn.Module) -> bool:
    """Whether a model returns the images of a composer without further layers."""
    return isinstance(model, FactorComposer) or (isinstance(model, Composed) and not len(model.layers))
