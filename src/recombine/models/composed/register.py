"""Shifts of single values corrected by the images that show them.

    roles = register(composer, roles, indices, images)

Training may leave a value with a wrong shift if few combinations show it. Once the other values are right, the images
of that value tell where it belongs.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.roles import Does, Roles, least_shift, shift_errors
from recombine.models.composed.simplify import dot_at, dots

REACH = 2  # pixels in each direction


def register(composer: FactorComposer, roles: Roles, given: Tensor, images: Float[Tensor, "image ..."]) -> Roles:
    """Give every value of a factor that moves the shift that fits its images best, one factor after the other.

    Where terms add up, all shifts are compared. Where they cover each other, those up to two pixels away.

    Args:
        composer: A simplified composer, changed in place.
        roles: Its roles, whose order is that of `roles_of`.
        given: Indices or codes of the images. Factors whose code mixes values are left as they are.
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
            if role.does is Does.MOVES and bool(((weights[factor] == 0) | (weights[factor] == 1)).all()):
                best = _best_of_all if composer.blend == "add" else _best_nearby
                shifts = list(role.shifts)
                for value in range(len(shifts)):
                    shown = weights[factor][:, value] == 1
                    if shown.any():
                        at = (role.term, factor, value)
                        own = [block[shown] for block in weights]
                        shifts[value] = best(composer, at, own, targets[shown], shifts[value])
                role = replace(role, shifts=shifts)
                composer.kernels[factor][:, role.term] = dots(composer, role)
            found.append(role)
    return Roles(tuple(found))


def _best_of_all(
    composer: FactorComposer,
    at: tuple[int, int, int],
    own: list[Float[Tensor, "image _value"]],
    targets: Float[Tensor, "image channel row column"],
    _: tuple[int, int],
) -> tuple[int, int]:
    """The best shift of a value of a factor, all three numbered as (term, factor, value), if terms add up."""
    term, factor, _value = at
    pictures = composer.pictures(own)
    left = targets - composer.background - pictures.sum(1) + pictures[:, term]
    absent = [torch.zeros_like(block) if k == factor else block for k, block in enumerate(own)]  # moves nothing
    return least_shift(shift_errors(left, composer.pictures(absent)[:, term]).sum(0))


def _best_nearby(
    composer: FactorComposer,
    at: tuple[int, int, int],
    own: list[Float[Tensor, "image _value"]],
    targets: Float[Tensor, "image channel row column"],
    shift: tuple[int, int],
) -> tuple[int, int]:
    """The best shift at most `REACH` pixels from the present one; the kernel is changed on the way."""
    term, factor, value = at
    errors: dict[tuple[int, int], float] = {}
    for right, down in product(range(-REACH, REACH + 1), repeat=2):
        tried = (shift[0] + right, shift[1] + down)
        composer.kernels[factor][value, term] = dot_at(composer, tried)
        errors[tried] = float((composer.blended(own) - targets).square().sum())
    best = min(errors, key=lambda tried: (errors[tried], tried != shift))
    composer.kernels[factor][value, term] = dot_at(composer, best)
    return best
