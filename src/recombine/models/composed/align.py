"""Finds the shifts of all values at once, from how far each image is moved.

    roles = align(composer, roles, indices, images)

If the shifts of several values are wrong together, correcting one of them alone does not help, because the images that
show it also show the others. How far an image is moved, however, does not depend on them: it is the shift at which the
object fits this image best. It must be the sum of the shifts of the image's values, one linear equation per image. The
sum of absolute residuals is minimized, so that a few images that fit at a wrong place do no harm.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.roles import Does, Role, Roles, least_shift, shift_errors
from recombine.models.composed.simplify import blank, move

AT_ONCE = 256  # images
STEPS = 50  # of reweighted least squares
NEAR = 1e-3  # pixels below which residuals count as squares
FREE = 1e-9  # eigenvalues, relative to the largest, of directions that no image determines


def align(composer: FactorComposer, roles: Roles, given: Tensor, images: Float[Tensor, "image ..."]) -> Roles:
    """Give all values of the factors that move the whole shifts that agree best with where the images show each term.

    Args:
        composer: A simplified composer whose terms add up, changed in place.
        roles: Its roles, whose order is that of `roles_of`.
        given: Indices or codes of the images.
        images: Images that the composer should make.

    Returns:
        The roles with the new shifts.
    """
    weights = composer.weights(given)
    targets = images.reshape(len(images), *composer.background.shape) / composer.contrast
    found = roles
    with torch.no_grad():
        before = (composer.blended(weights) - targets).square().mean()
        for term in range(composer.terms):
            moving = _moving_in(found, term)
            if moving:
                shown = torch.cat([weights[factor] for factor in moving], dim=1).cpu().double()
                present = torch.cat([composer.shifts_of(factor)[:, term] for factor in moving]).cpu().double()
                seen = _places(composer, term, moving, weights, targets)
                shifts = present + summands(shown, seen - shown @ present)
                found = _moved_by(composer, found, term, shifts.round())
        if (composer.blended(weights) - targets).square().mean() < before:
            return found
        for at, role in enumerate(roles.roles):
            move(composer, at % len(composer.factor_sizes), role)
    return roles


def redraw(composer: FactorComposer, roles: Roles, given: Tensor) -> Roles:
    """Redraw the terms that move: from zero, and in the middle of the places where the images show them.

    An object at the border would be cut off, and pixels that were fitted at wrong shifts would remain. A fit must
    follow.

    Args:
        composer: A simplified composer, changed in place.
        roles: Its roles.
        given: Indices or codes of the images.

    Returns:
        The roles with the new shifts. All of a term's images are moved by the same amount.
    """
    weights = composer.weights(given)
    with torch.no_grad():
        for term in range(composer.terms):
            moving = _moving_in(roles, term)
            draws = [k for k, role in enumerate(_of_term(roles, term)) if role.does is Does.DRAWS]
            if moving and len(draws) < 2:
                shifts = torch.cat([composer.shifts_of(factor)[:, term] for factor in moving])
                sums = torch.cat([weights[factor] for factor in moving], dim=1) @ shifts
                shifts[: composer.factor_sizes[moving[0]]] -= ((sums.amin(0) + sums.amax(0)) / 2).round()
                roles = _moved_by(composer, roles, term, shifts)
                blank(composer, term, draws)
    return roles


def _moving_in(roles: Roles, term: int) -> list[int]:
    """The factors that move a term."""
    return [factor for factor, role in enumerate(_of_term(roles, term)) if role.does is Does.MOVES]


def _moved_by(composer: FactorComposer, roles: Roles, term: int, shifts: Float[Tensor, "value 2"]) -> Roles:
    """Give the values of the factors that move a term, one factor after the other, new shifts (rows, columns)."""
    moving, found = _moving_in(roles, term), list(roles.roles)
    first = found.index(_of_term(roles, term)[0])
    for factor, own in zip(moving, shifts.split([composer.factor_sizes[factor] for factor in moving])):
        found[first + factor] = replace(found[first + factor], shifts=[(right, down) for down, right in own.tolist()])
        move(composer, factor, found[first + factor])
    return Roles(tuple(found))


def _of_term(roles: Roles, term: int) -> list[Role]:
    return [role for role in roles.roles if role.term == term]


def _places(
    composer: FactorComposer,
    term: int,
    moving: list[int],
    weights: list[Float[Tensor, "image _value"]],
    targets: Float[Tensor, "image channel row column"],
) -> Float[Tensor, "image 2"]:
    """The shift (rows, columns) at which a term without the factors that move it fits each image best."""
    places = []
    for some in torch.arange(len(targets)).split(AT_ONCE):
        own = [block[some] for block in weights]
        pictures = composer.pictures(own)
        left = targets[some] - composer.background - pictures.sum(1) + pictures[:, term]
        still = [torch.zeros_like(block) if k in moving else block for k, block in enumerate(own)]
        places += [least_shift(error)[::-1] for error in shift_errors(left, composer.pictures(still)[:, term])]
    return torch.tensor(places, dtype=torch.double)


def summands(shown: Float[Tensor, "image value"], sums: Float[Tensor, "image 2"]) -> Float[Tensor, "value 2"]:
    """A vector for each value, such that their sums over the values that each image shows are close to given ones.

    The sum of the lengths of the residuals is minimized. As many values as the images leave free are zero, so that the
    others are whole if the sums are.
    """
    kept = _tied(shown)
    own, found = shown[:, kept], shown.new_zeros(shown.shape[1], 2)
    trust = shown.new_ones(len(shown), 1)
    for _ in range(STEPS):
        found[kept] = torch.linalg.solve(own.mT @ (trust * own), own.mT @ (trust * sums))
        trust = 1 / (sums - shown @ found).norm(dim=1, keepdim=True).clamp(min=NEAR)
    return found


def _tied(shown: Float[Tensor, "image value"]) -> Tensor:
    """A largest set of values whose vectors follow from the sums of the images if those of the others are zero."""
    levels, vectors = torch.linalg.eigh(shown.mT @ shown)
    free = vectors[:, levels <= FREE * levels[-1]]
    kept = torch.ones(shown.shape[1], dtype=torch.bool)
    for _ in range(free.shape[1]):
        at = int(free.norm(dim=1).argmax())
        kept[at] = False
        row = free[at] / free[at].norm()
        free = free - (free @ row).unsqueeze(1) * row
    return kept.nonzero()[:, 0]
