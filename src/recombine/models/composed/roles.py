"""The role of each factor of a composer, determined from images: moves, tints, scales, draws, nothing.

For each term, one factor takes all its values while the others stay at their middle values. The change is compared with
the simplest explanations, each fitted to the image of the middle value: a gain for all channels, a gain per channel, a
shift of everything that is not static, by whole pixels or by fractions. Of gains and shifts, the one that explains more
is tried first. Values that are interpolated between trained ones are left out.
The first explanation that accounts for the change is the role. If none does, the factor draws. Whether a factor resizes
or turns the object is determined from trained images (`recombine.models.composed.warp_roles`); a composer that has
warps tells it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.shift import refined_shifts

LEAST_CHANGE = 0.02  # of a term's energy, below which a factor does nothing
EXPLAINED = 0.9  # share of the change that an explanation must account for
WHOLE = 0.1  # pixels by which fitted shifts may differ from whole ones that are taken for exact
MEDIAN = 5  # values from which on the median over them tells what is static
LEAST_WARP = 1e-2  # range of log-scales and angles (radians) below which they are taken to be the same
EMPTY = 1e-6  # share of the largest term's energy below which a term is empty


class Does(StrEnum):
    """The kinds of roles."""

    NOTHING = "nothing"
    SCALES = "scales"
    TINTS = "tints"
    MOVES = "moves"
    RESIZES = "resizes"
    TURNS = "turns"
    WARPS = "warps"
    DRAWS = "draws"


WARPS = {Does.RESIZES: "resizes", Does.TURNS: "turns", Does.WARPS: "resizes and turns"}  # in words


@dataclass(frozen=True)
class Role:
    """The role of one factor in one term.

    Attributes:
        term: Index of the term.
        factor: Name of the factor.
        does: The role.
        change: Mean squared change over the factor's values, relative to the term's energy.
        explained: Share of the change that one gain for all channels, a gain per channel, or a shift accounts for.
        shifts: For each value, the shift (columns, rows) of its image relative to that of the middle value, in pixels.
        gains: For each value, the gain of every channel relative to the middle value.
        warps: For each value, its log-scale, angle (radians), rows and columns, if it resizes or turns.
    """

    term: int
    factor: str
    does: Does
    change: float
    explained: dict[str, float]
    shifts: list[tuple[float, float]]
    gains: list[list[float]]
    warps: tuple[tuple[float, ...], ...] = ()

    def __str__(self) -> str:
        if self.does is Does.NOTHING:
            return f"{self.factor} does nothing"
        if self.does is Does.MOVES:
            ends = [(min(along), max(along)) for along in zip(*self.shifts)]
            spans = [
                f"{low:+.3g} … {high:+.3g} {axis}"
                for (low, high), axis in zip(ends, ("columns", "rows"))
                if high - low > WHOLE
            ]
            return f"{self.factor} moves it ({', '.join(spans)})"
        if self.does in WARPS:
            return f"{self.factor} {WARPS[self.does]} it ({self._warps()})"
        if self.does is Does.DRAWS:
            return f"{self.factor} draws it ({1 - max(self.explained.values()):.0%} of its changes are new shapes)"
        levels = [sum(own) / len(own) for own in self.gains]
        span = f"{min(levels):.2f} … {max(levels):.2f}"
        return f"{self.factor} {self.does.value} it" + (f" (gain {span})" if self.does is Does.SCALES else "")

    def _warps(self) -> str:
        """The ranges of scales, relative to the largest one, and of angles."""
        scales, angles = ([own[at] for own in self.warps] for at in (0, 1))
        size = f"× {math.exp(min(scales) - max(scales)):.2f} … 1"
        turn = f"{math.degrees(min(angles)):+.0f} … {math.degrees(max(angles)):+.0f} degrees"
        return {Does.RESIZES: size, Does.TURNS: turn}.get(self.does, f"{size}, {turn}")


@dataclass(frozen=True)
class Roles:
    """Roles of all factors in all terms."""

    roles: tuple[Role, ...]

    def of(self, factor: str, term: int = 0) -> Role:
        return next(role for role in self.roles if role.factor == factor and role.term == term)

    def rounded(self) -> Roles:
        """The same with shifts by whole pixels."""
        return Roles(
            tuple(
                replace(role, shifts=[(float(round(a)), float(round(b))) for a, b in role.shifts])
                for role in self.roles
            )
        )

    def __str__(self) -> str:
        terms = sorted({role.term for role in self.roles})
        lines = [(t, "; ".join(str(role) for role in self.roles if role.term == t)) for t in terms]
        return "\n".join(line if len(terms) == 1 else f"term {t}: {line}" for t, line in lines)


def roles_of(composer: FactorComposer, names: Sequence[str] | None = None, *, explained: float = EXPLAINED) -> Roles:
    """The roles of a composer's factors.

    Args:
        composer: The composer.
        names: Names of the factors; numbers unless given.
        explained: Share of the change that an explanation must account for.
    """
    names = [str(k) for k in range(len(composer.factor_sizes))] if names is None else list(names)
    standing = [composer.standing(factor) for factor in range(len(composer.factor_sizes))]
    middle = torch.tensor([middle_of(composer, factor) for factor in range(len(composer.factor_sizes))])
    found = []
    with torch.no_grad():
        for factor, values in enumerate(standing):
            indices = middle.repeat(len(values), 1)
            indices[:, factor] = torch.tensor(values)
            all_values = composer.between_of(factor)
            pictures = composer.pictures(composer.weights(indices.to(composer.background.device)))
            energies = pictures.square().mean((0, 2, 3, 4))
            for term in range(composer.terms):
                own = pictures[:, term]
                if energies[term] <= EMPTY * energies.max():
                    own = torch.zeros_like(own)
                role = _role(term, names[factor], own, values.index(int(middle[factor])), explained)
                found.append(_with_warps(composer, factor, _of_all_values(role, all_values[:, values])))
    return Roles(tuple(sorted(found, key=lambda role: role.term)))


def middle_of(composer: FactorComposer, factor: int) -> int:
    """The value of a factor that stands for itself and is nearest to the middle."""
    return min(composer.standing(factor), key=lambda value: abs(value - composer.factor_sizes[factor] // 2))


def _of_all_values(role: Role, weights: Float[Tensor, "value standing"]) -> Role:
    """The role with shifts and gains of all values, some of which are interpolated."""
    if len(weights) == weights.shape[1]:
        return role
    shifts = (weights.double().cpu() @ torch.tensor(role.shifts, dtype=torch.double)).tolist()
    gains = (weights.double().cpu() @ torch.tensor(role.gains, dtype=torch.double)).tolist()
    return replace(role, shifts=[(right, down) for right, down in shifts], gains=gains)


def _with_warps(composer: FactorComposer, factor: int, role: Role) -> Role:
    """The role of a factor that resizes or turns, which was determined from images before it was given warps."""
    warps = composer.warps_of(factor)[:, role.term]
    if not warps.any():
        return role
    resizes, turns = ((warps[:, :2].amax(0) - warps[:, :2].amin(0)) > LEAST_WARP).tolist()
    does = Does.WARPS if resizes and turns else Does.TURNS if turns else Does.RESIZES
    return replace(role, does=does, warps=tuple(map(tuple, warps.tolist())))


def _role(
    term: int, factor: str, pictures: Float[Tensor, "value channel row column"], middle: int, enough: float
) -> Role:
    reference = pictures[middle]
    energy = pictures.square().mean()
    change = (pictures - reference).square().mean()
    share = float(change / energy) if energy > 0 else 0.0
    gains = _gains(pictures, reference)
    one = _gains(pictures.flatten(1).unsqueeze(1), reference.flatten().unsqueeze(0))
    static = pictures.median(0).values  # what never moves may be a part of the background that the term draws
    grounds = [torch.zeros_like(static)] + [static] * (len(pictures) >= MEDIAN)
    candidates = [_shifted(pictures - still, reference - still, still) for still in grounds]
    candidates += [_refined(pictures - still, reference - still, still, *c) for c, still in zip(candidates, grounds)]
    shifts, moved = min(candidates, key=lambda found: float((pictures - found[1]).square().mean()))
    left = {
        Does.SCALES: (pictures - one[..., None, None] * reference).square().mean(),
        Does.TINTS: (pictures - gains[..., None, None] * reference).square().mean(),
        Does.MOVES: (pictures - moved).square().mean(),
    }
    explained = {does.value: float(1 - error / change) if change > 0 else 0.0 for does, error in left.items()}
    moves = explained[Does.MOVES.value] > explained[Does.TINTS.value]  # a gain of 0 explains half of any movement
    order = (Does.MOVES, Does.SCALES, Does.TINTS) if moves else (Does.SCALES, Does.TINTS, Does.MOVES)
    does = next((does for does in order if explained[does.value] >= enough), Does.DRAWS)
    return Role(term, factor, Does.NOTHING if share < LEAST_CHANGE else does, share, explained, shifts, gains.tolist())


def _gains(
    pictures: Float[Tensor, "value channel *place"], reference: Float[Tensor, "channel *place"]
) -> Float[Tensor, "value channel"]:
    """The gain that brings each channel of the reference closest to each image; 0 for an empty channel."""
    ours, theirs = pictures.flatten(2), reference.flatten(1)
    norm = theirs.square().sum(-1)
    return (ours * theirs).sum(-1) / torch.where(norm > 0, norm, torch.ones_like(norm))


def _shifted(
    pictures: Float[Tensor, "value channel row column"],
    reference: Float[Tensor, "channel row column"],
    static: Float[Tensor, "channel row column"],
) -> tuple[list[tuple[float, float]], Float[Tensor, "value channel row column"]]:
    """For each image, the whole-pixel shift (columns, rows) that brings the reference closest to it, and the shifted
    reference.

    The static part was subtracted from both and is added to the shifted reference. Pixels that are shifted beyond the
    border are lost, and zeros are shifted in; images do not wrap around.
    """
    rows, columns = reference.shape[-2:]
    shifts, moved = [], torch.zeros_like(pictures)
    for value, error in enumerate(shift_errors(pictures, reference)):
        c, r = least_shift(error)
        shifts.append((float(c), float(r)))
        to = [slice(max(at, 0), side + min(at, 0)) for at, side in ((r, rows), (c, columns))]
        of = [slice(max(-at, 0), side + min(-at, 0)) for at, side in ((r, rows), (c, columns))]
        moved[value, :, to[0], to[1]] = reference[:, of[0], of[1]]
    return shifts, moved + static


def _refined(
    pictures: Float[Tensor, "value channel row column"],
    reference: Float[Tensor, "channel row column"],
    static: Float[Tensor, "channel row column"],
    shifts: list[tuple[float, float]],
    moved: Float[Tensor, "value channel row column"],
) -> tuple[list[tuple[float, float]], Float[Tensor, "value channel row column"]]:
    """The same as `_shifted` with fractions of a pixel; as given, if all shifts are close to whole pixels."""
    start = torch.tensor(shifts, dtype=reference.dtype, device=reference.device).flip(-1)
    found, better = refined_shifts(pictures, reference, start)
    if (found - start).abs().max() < WHOLE:
        return shifts, moved
    return [(right, down) for down, right in found.tolist()], better + static


def shift_errors(
    pictures: Float[Tensor, "picture channel row column"], reference: Float[Tensor, "*picture channel row column"]
) -> Float[Tensor, "picture shift_rows shift_columns"]:
    """The squared error of each picture's reference after each shift, less the picture's energy. Negative shifts stand
    at the end of each axis, as in a Fourier transform."""
    rows, columns = reference.shape[-2:]
    grid = (2 * rows, 2 * columns)
    spectra, own = torch.fft.rfft2(pictures, s=grid), torch.fft.rfft2(reference, s=grid)
    match = torch.fft.irfft2((spectra * own.conj()).sum(1), s=grid)
    kept = torch.fft.irfft2(
        torch.fft.rfft2(torch.ones(rows, columns, dtype=reference.dtype, device=reference.device), s=grid)
        * torch.fft.rfft2(reference.square().sum(-3), s=grid).conj(),
        s=grid,
    )  # energy of the reference that stays inside after each shift
    error = kept - 2 * match
    error[:, rows] = error[:, :, columns] = torch.inf  # a shift by the whole image
    return error


def least_shift(error: Float[Tensor, "shift_rows shift_columns"]) -> tuple[int, int]:
    """The shift (columns, rows) with the least error."""
    at = divmod(int(error.argmin()), error.shape[1])
    down, right = (i - size if i > size // 2 else i for i, size in zip(at, error.shape))
    return right, down
