"""Replaces the operators of a composer by exact ones, according to the roles of its factors.

Training leaves kernels with almost a single entry and gains close to one. `simplify` determines the roles from images
and replaces the operators by exact ones: shifts for a factor that moves, gains for one that tints or scales, warps for
one that resizes or turns, the identity for one that does nothing. Drawn images start again from zero, so that pixels
that are dark in all trained images stay dark. A fit to the trained images must follow: see `recombine.training.settle`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.roles import Does, Role, Roles, middle_of, roles_of
from recombine.models.composed.shift import shift_phases
from recombine.models.composed.warp import NUMBERS

IDLE = 0.02  # root mean square of deviations below which an unnecessary group of operators is dropped


def simplify(composer: FactorComposer, roles: Roles | None = None) -> dict[Tensor, Tensor]:
    """Simplify a composer in place.

    Args:
        composer: The composer.
        roles: What its factors do; read off its pictures unless given.

    Returns:
        For each of its parameters, the shifts and the warps, ones at the free entries and zeros at the fixed ones.
        Shifts and warps are fixed, and so is the background, at that of `fit_background`.
    """
    roles = roles or roles_of(composer)
    set_warps(composer, roles)
    free: dict[Tensor, Tensor] = {parameter: torch.ones_like(parameter) for parameter in composer.parameters()}
    free[composer.shifts] = torch.zeros_like(composer.shifts)
    if composer.warps is not None:
        free[composer.warps] = torch.zeros_like(composer.warps)
    with torch.no_grad():
        for term in range(composer.terms):
            _simplify_term(composer, [role for role in roles.roles if role.term == term], free)
        _fix(composer.background, composer.start / composer.contrast, free)
    return free


def _simplify_term(composer: FactorComposer, roles: list[Role], free: dict[Tensor, Tensor]) -> None:
    """Operators of a term: all values relative to the middle one, whose operators become part of the object. Gains are
    relative to their root mean square: a middle value that is dark in one channel would make all others huge."""
    term = roles[0].term
    middle = [middle_of(composer, factor) for factor in range(len(composer.factor_sizes))]
    draws = [k for k, role in enumerate(roles) if role.does is Does.DRAWS]
    simple = [k for k in range(len(roles)) if k not in draws]
    drawn, colour = composer.drawing[term] + composer.identity, 1 + composer.colours[term]
    for k in simple:
        drawn = _convolve(composer, drawn, composer.kernels[k][middle[k], term] + composer.identity)
        drawn = _moved(composer, drawn, composer.shifts_of(k)[middle[k], term])
        if composer.gains:
            colour = colour * (1 + composer.gains[k][middle[k], term])
    composer.colours[term] = colour - 1
    composer.drawing[term] = drawn - composer.identity
    for k, role in enumerate(roles):
        move(composer, k, role)
    for k in simple:
        _fix(composer.kernels[k], 0.0, free, term)
        if composer.maps:
            _fix(composer.maps[k], 0.0, free, term)
        if composer.gains:
            tints = roles[k].does in (Does.TINTS, Does.SCALES)
            gains = torch.tensor(roles[k].gains).to(composer.gains[k]) if tints else torch.ones(1, 1).to(colour)
            size = gains.square().mean(0).sqrt()
            size = torch.where(size > 0, size, torch.ones_like(size))
            composer.colours[term] = (1 + composer.colours[term]) * size - 1
            _fix(composer.gains[k], gains / size - 1, free, term)
            if tints:
                free[composer.gains[k]][:, term] = 1
    for k in draws:
        for group in (*composer.gains[k : k + 1], *composer.maps[k : k + 1]):
            if group[:, term].square().flatten(1).sum(1).mean().sqrt() < IDLE:
                _fix(group, 0.0, free, term)
    blank(composer, term, draws)
    if len(draws) == 1:
        free[composer.drawing][term] = 0


def blank(composer: FactorComposer, term: int, draws: list[int]) -> None:
    """Draw nothing: the fit that follows starts from zero. If several factors draw, their drawings are kept.

    Args:
        composer: The composer.
        term: Number of the term.
        draws: The factors that draw it.
    """
    if not draws:
        composer.drawing[term] = -composer.identity
    elif len(draws) == 1:  # its kernels are the pictures themselves
        composer.kernels[draws[0]][:, term] = -composer.identity
        composer.drawing[term] = 0


def _fix(parameter: nn.Parameter, to: Tensor | float, free: dict[Tensor, Tensor], term: int | None = None) -> None:
    own = slice(None) if term is None else (slice(None), term)
    parameter[own] = to if isinstance(to, Tensor) else torch.full((), to).to(parameter)
    free[parameter][own] = 0


def set_warps(composer: FactorComposer, roles: Roles) -> None:
    """Resize and turn the values of factors as the roles say; without such roles, the composer has no warps."""
    composer.warps = None
    if any(role.warps for role in roles.roles):
        composer.warps = composer.shifts.new_zeros(*composer.shifts.shape[:2], NUMBERS)
        for at, role in enumerate(roles.roles):
            if role.warps:
                own = composer.warps_of(at % len(composer.factor_sizes))
                own[:, role.term] = torch.tensor(role.warps).to(own)


def move(composer: FactorComposer, factor: int, role: Role) -> None:
    """Shift the values of a factor as the role says; not at all unless it moves."""
    shifts = torch.tensor(role.shifts).to(composer.shifts).flip(-1)
    composer.shifts_of(factor)[:, role.term] = shifts if role.does is Does.MOVES else torch.zeros_like(shifts)


def _moved(
    composer: FactorComposer, image: Float[Tensor, "row column"], shift: Float[Tensor, " 2"]
) -> Float[Tensor, "row column"]:
    rows, columns = image.shape
    spectrum = torch.fft.rfft2(image, s=composer.grid) * shift_phases(shift, composer.grid)
    return torch.fft.irfft2(spectrum, s=composer.grid)[:rows, :columns]


def _convolve(
    composer: FactorComposer, image: Float[Tensor, "row column"], kernel: Float[Tensor, "row column"]
) -> Float[Tensor, "row column"]:
    """The image moved and blurred as the kernel says, whose origin is the image's centre."""
    rows, columns = image.shape
    spectrum = torch.fft.rfft2(image, s=composer.grid) * torch.fft.rfft2(kernel, s=composer.grid)
    whole = torch.fft.irfft2(spectrum, s=composer.grid).roll((-(rows // 2), -(columns // 2)), dims=(0, 1))
    return whole[:rows, :columns]
