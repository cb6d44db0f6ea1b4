"""Fits a composer some of whose factors resize or turn the object.

    found = fit_warps(model, fit)                           # None if the images do not show such a factor

Pixels of an object that is seen only small are hardly determined at the scale at which it is drawn, and would be fitted
to what the warp does not explain, such as the pixels' own edges. A penalty on the slopes of the drawing keeps them
smooth. Warps start from those observed in the images (`recombine.models.composed.warp_roles`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.roles import WARPS, Does, Roles
from recombine.models.composed.simplify import simplify
from recombine.models.composed.warp_roles import grounds_of, warp_roles
from recombine.training.exact_fit import ExactFit, composers_of

SMOOTH = 1e-2  # weight of the slopes of the drawing, in units of the images' energy
FREE = {Does.RESIZES: (1, 0, 1, 1), Does.TURNS: (0, 1, 1, 1), Does.WARPS: (1, 1, 1, 1)}  # numbers that are fitted


@dataclass(frozen=True)
class Warped:
    """A fitted model.

    Attributes:
        model: A copy of the given one.
        error: Its mean squared error, in units of the images' energy.
        roles: Of its composer.
    """

    model: nn.Module
    error: float
    roles: Roles


def fit_warps(model: nn.Module, fit: ExactFit) -> Warped | None:
    """Replace the operators of a composer by exact ones, with warps where the images show them, and fit the rest.

    Args:
        model: A composer, or a decoder that adds nothing to it, as training left it. It is not changed.
        fit: The fit to trained images.
    """
    [composer] = composers_of(model)
    if composer.terms > 1 or composer.blend != "add":
        return None
    for ground in grounds_of(composer):
        with torch.no_grad():
            roles = warp_roles(composer, fit.inputs, fit.images, ground)
        if roles is not None:
            return _fitted(copy.deepcopy(model), roles, ground, fit)
    return None


def _fitted(model: nn.Module, roles: Roles, ground: Tensor, fit: ExactFit) -> Warped:
    """First the drawing alone, then with the warps."""
    [composer] = composers_of(model)
    free = simplify(composer, roles)
    with torch.no_grad():
        composer.background.copy_(ground / composer.contrast)
    draws = [k for k, role in enumerate(roles.roles) if role.does is Does.DRAWS]
    smooth = replace(fit, penalty=lambda _: SMOOTH * roughness(composer, draws))
    smooth(model, free)
    assert composer.warps is not None
    for role, mask in zip(roles.roles, free[composer.warps].split(composer.factor_sizes)):
        if role.does in WARPS:
            mask[:] = mask.new_tensor(FREE[role.does])
    return Warped(model, smooth(model, free), roles)


def roughness(composer: FactorComposer, draws: list[int]) -> Tensor:
    """The mean squared slope of what factors draw, or of the object if none draws, in units of the images' energy. It
    does not change if the drawing becomes darker and gains become larger."""
    drawn = [(composer.kernels[k] + composer.identity).flatten(0, 1) for k in draws]
    image = torch.cat(drawn) if drawn else composer.drawing + composer.identity
    slopes = image.diff(dim=1).square().mean() + image.diff(dim=2).square().mean()
    gain = (1 + composer.colours).square().mean()
    for own in composer.gains:
        gain = gain * (1 + own).square().mean()
    return slopes * gain * composer.contrast.square() / composer.energy
