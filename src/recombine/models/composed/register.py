"""Corrects the shifts of single values from the images that show them.

    roles = register(composer, roles, indices, images)

Training may leave a value with a wrong shift if few combinations show it. Once the other values are correct, the images
of that value determine its shift.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.roles import Does, Roles, least_shift, shift_errors
from recombine.models.composed.simplify import move

REACH = 2  # pixels in each direction
CLOSE = 1e-3  # difference from 1 of the weight of a value that an image shows


def register(composer: FactorComposer, roles: Roles, given: Tensor, images: Float[Tensor, "image ..."]) -> Roles:
    """Give every value of a factor that moves the shift that fits its images best, one factor after the other.

    Where terms add up, all shifts are compared. Where they cover each other, those up to two pixels away.

    Args:
        composer: A simplified composer, changed in place.
        roles: Its roles, whose order is that of `roles_of`.
        given: Indices or codes of the images. Images between two values of a factor do not count for it.
        images: Images that the composer should make.

    Returns:
        The roles with the new shifts.
    """
    weights = composer.weights(given)
    targets = images.reshape(len(images), *composer.background.shape) / composer.contrast
    found = []
    with torch.no_grad():
        for at, role in enumerate(roles.roles):
            factor = at % len(composer.factor_sizes)
            if role.does is Does.MOVES:
                best = _best_of_all if composer.blend == "add" else _best_nearby
                shifts = list(role.shifts)
                for value in range(len(shifts)):
                    shown = (weights[factor][:, value] - 1).abs() < CLOSE
                    if shown.any():
                        at = (role.term, factor, value)
                        own = [block[shown] for block in weights]
                        shifts[value] = best(composer, at, own, targets[shown], shifts[value])
                role = replace(role, shifts=shifts)
                move(composer, factor, role)
            found.append(role)
    return Roles(tuple(found))


def _best_of_all(
    composer: FactorComposer,
    at: tuple[int, int, int],
    own: list[Float[Tensor, "image _value"]],
    targets: Float[Tensor, "image channel row column"],
    _: tuple[float, float],
) -> tuple[float, float]:
    """The best shift of a value of a factor, all three numbered as (term, factor, value), if terms add up."""
    term, factor, _value = at
    pictures = composer.pictures(own)
    left = targets - composer.background - pictures.sum(1) + pictures[:, term]
    absent = [torch.zeros_like(block) if k == factor else block for k, block in enumerate(own)]  # moves nothing
    right, down = least_shift(shift_errors(left, composer.pictures(absent)[:, term]).sum(0))
    return float(right), float(down)


def _best_nearby(
    composer: FactorComposer,
    at: tuple[int, int, int],
    own: list[Float[Tensor, "image _value"]],
    targets: Float[Tensor, "image channel row column"],
    shift: tuple[float, float],
) -> tuple[float, float]:
    """The best shift at most `REACH` pixels from the present one; the composer is changed on the way."""
    term, factor, value = at
    errors: dict[tuple[float, float], float] = {}
    here = composer.shifts_of(factor)[value, term]
    for right, down in product(range(-REACH, REACH + 1), repeat=2):
        tried = (shift[0] + right, shift[1] + down)
        here.copy_(here.new_tensor(tried).flip(-1))
        errors[tried] = float((composer.blended(own) - targets).square().sum())
    best = min(errors, key=lambda tried: (errors[tried], tried != shift))
    here.copy_(here.new_tensor(best).flip(-1))
    return best
