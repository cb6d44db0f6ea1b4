"""Shifts of single values corrected by the images that show them.

    roles = register(composer, roles, indices, images)

Training may leave a value with a wrong shift if few combinations show it. Once the other values are right, the images
of that value tell where it belongs.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.roles import Does, Role, Roles, least_shift, shift_errors
from recombine.models.composed.simplify import dots


def register(composer: FactorComposer, roles: Roles, given: Tensor, images: Float[Tensor, "image ..."]) -> Roles:
    """Give every value of a factor that moves the shift that fits its images best, one factor after the other.

    Args:
        composer: A simplified composer, changed in place.
        roles: Its roles, whose order is that of `roles_of`.
        given: Indices or codes of the images. Factors whose code mixes values are left as they are.
        images: Images that the composer should make.

    Returns:
        The roles with the new shifts.
    """
    weights = composer.weights(given)
    targets = images.reshape(len(images), *composer.background.shape) / composer.contrast - composer.background
    found = []
    with torch.no_grad():
        for at, role in enumerate(roles.roles):
            factor = at % len(composer.factor_sizes)
            if role.does is Does.MOVES and bool(((weights[factor] == 0) | (weights[factor] == 1)).all()):
                role = _registered(composer, role, factor, weights, targets)
                composer.kernels[factor][:, role.term] = dots(composer, role)
            found.append(role)
    return Roles(tuple(found))


def _registered(
    composer: FactorComposer,
    role: Role,
    factor: int,
    weights: list[Float[Tensor, "image _value"]],
    targets: Float[Tensor, "image channel row column"],
) -> Role:
    shifts = list(role.shifts)
    for value in range(len(shifts)):
        shown = weights[factor][:, value] == 1
        if not shown.any():
            continue
        own = [block[shown] for block in weights]
        others = composer.pictures(own).sum(1) - composer.pictures(own)[:, role.term]
        own[factor] = torch.zeros_like(own[factor])  # an absent factor leaves the term where it is
        unmoved = composer.pictures(own)[:, role.term]
        shifts[value] = least_shift(shift_errors(targets[shown] - others, unmoved).sum(0))
    return replace(role, shifts=shifts)
