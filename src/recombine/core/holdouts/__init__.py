"""Hold-outs: which combinations of factor values are never trained on. The only place with hold-out arithmetic.

    held_out = centre(space, 6, 22)                # 6 ≤ x ≤ 22 and 6 ≤ y ≤ 22, both ends included
    held_out = corner(space, 12) | gap(space, "x", 3, 5)
    held_out.n_id, held_out.n_ood                  # exact counts
    held_out.coverage()                            # is every single factor value still seen in training?

Held-out combinations are *OOD*, all others *ID*. Bounds are factor values, inclusive. A hold-out knows the
configuration that rebuilds it, whatever it was combined from.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Real
from pydantic import AfterValidator, Field
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import DEFAULT_CHUNK, FactorSpace
from recombine.core.registry import MOST_NESTED, TOO_DEEP, Count, Family, Finite

HOLDOUTS = Family("holdout", (FactorSpace,))
Bound = Finite | list[Finite]  # one for all factors, or one per factor
Rule = Callable[[Tensor], Tensor]
MOST_PARTS = 10_000  # of a combination: written twice in every round, parts would double in each
Combination = Literal["any_of", "all_of", "all_but"]
Part = Annotated[dict[str, Any], AfterValidator(lambda part: HOLDOUTS.validate(part).model_dump())]


@dataclass(frozen=True)
class Coverage:
    """Which single factor values never occur in training."""

    unseen: dict[str, list[float]]

    @property
    def complete(self) -> bool:
        """True if only combinations are new: every single value of every factor is trained on."""
        return not any(self.unseen.values())

    def __str__(self) -> str:
        if self.complete:
            return "every value of every factor is seen in training"
        parts = [f"{name} ∈ {{{_listed(values)}}}" for name, values in self.unseen.items() if values]
        return "never seen in training: " + "; ".join(parts)


class Holdout:
    """A set of held-out combinations over a factor space; combine with `|`, `&`, `~`.

    Args:
        space: The factor space.
        rule: Factor values (…, factor) → True where held out.
        config: What rebuilds the hold-out; filled in by the functions of this module.
    """

    def __init__(self, space: FactorSpace, rule: Rule, config: dict[str, Any] | None = None) -> None:
        self.space = space
        self._config = config
        self._rule = rule
        self._combination: tuple[Combination | None, list[Holdout]] = (None, [])  # how, and of what, it was combined
        self._depth = 0  # of parts within parts
        self._size = 1  # parts in all

    @property
    def config(self) -> dict[str, Any]:
        """What rebuilds the hold-out; for a rule of one's own, its mask over the grid."""
        if self._config is None:
            self._config = mask(self.space, self.mask).config
        return self._config

    @config.setter
    def config(self, config: dict[str, Any]) -> None:
        self._config = config

    def contains(self, values: Real[Tensor, "*shape factor"]) -> Bool[Tensor, "*shape"]:
        """True for each combination of factor values that is held out."""
        return self._rule(self.space.checked(values)).bool()

    @cached_property
    def mask(self) -> Bool[np.ndarray, ...]:
        """True for each held-out cell of the grid, in the space's shape (one byte per cell)."""
        flat = np.empty(len(self.space), dtype=bool)
        for cells in self.space.chunks():
            flat[cells[0] : cells[-1] + 1] = self.contains(self.space.values(cells)).numpy()
        return flat.reshape(self.space.shape)

    @property
    def n_ood(self) -> int:
        return int(self.mask.sum())

    @property
    def n_id(self) -> int:
        return len(self.space) - self.n_ood

    @property
    def ood_cells(self) -> Int[Tensor, " cell"]:
        return torch.from_numpy(np.flatnonzero(self.mask))

    @property
    def id_cells(self) -> Int[Tensor, " cell"]:
        return torch.from_numpy(np.flatnonzero(~self.mask))

    def coverage(self) -> Coverage:
        """For each factor, the values that no ID cell has."""
        unseen = {}
        for axis, (name, factor) in enumerate(self.space.factors.items()):
            others = tuple(a for a in range(self.space.n_factors) if a != axis)
            never = self.mask.all(axis=others)
            unseen[name] = [float(v) for v in factor.grid()[torch.from_numpy(np.atleast_1d(never))]]
        return Coverage(unseen)

    @cached_property
    def hash(self) -> str:
        """Names what is held out, not how it was written: equal for equal masks over equal spaces."""
        digest = hashlib.sha256(json.dumps(self.space.to_config(), sort_keys=False).encode())
        digest.update(np.packbits(self.mask).tobytes())
        return digest.hexdigest()[:16]

    def check(self, *, allow_unseen: bool = False) -> None:
        """Raise unless there are ID and OOD cells and every single factor value is trained on."""
        if self.n_ood == 0:
            raise InputError(f"The hold-out {self} holds nothing out: no OOD cell is left. Choose wider bounds.")
        if self.n_id == 0:
            raise InputError(f"The hold-out {self} holds everything out: no ID cell is left. Choose narrower bounds.")
        coverage = self.coverage()
        if not allow_unseen and not coverage.complete:
            raise InputError(
                f"The hold-out {self} takes single factor values out of training ({coverage}), so that failing on them "
                "is no failure to compose. Choose narrower bounds, or allow it (allow_unseen=True; "
                "on the command line training.allow_unseen=true)."
            )

    def __or__(self, other: Holdout) -> Holdout:
        return self._with("any_of", other)

    def __and__(self, other: Holdout) -> Holdout:
        return self._with("all_of", other)

    def __invert__(self) -> Holdout:
        how, parts = self._combination
        if how == "all_but":
            return parts[0]
        inverted = _combined("all_but", [self])
        inverted.config = {"kind": "all_but", "part": self.config}
        return inverted

    def _with(self, kind: Combination, other: Holdout) -> Holdout:
        """Both hold-outs combined; the parts of one that is of the same kind already join the others in one list."""
        parts: list[Holdout] = []
        for held in (self, self._same_space(other)):
            how, inner = held._combination
            parts += inner if how == kind else [held]
        combined = _combined(kind, parts)
        combined.config = {"kind": kind, "parts": [part.config for part in parts]}
        return combined

    def _same_space(self, other: Holdout) -> Holdout:
        if not isinstance(other, Holdout):
            raise InputError(f"Only hold-outs combine with |, & and ~. Got {other!r} instead.")
        if other.space != self.space:
            raise InputError(f"Only hold-outs of one space combine. Got {self.space} and {other.space}.")
        return other

    def __repr__(self) -> str:
        return (
            f"<{_described(self.config)} of {self.space}: {self.n_ood} of {len(self.space)} cells held out "
            f"({100 * self.n_ood / len(self.space):.1f} %)>"
        )

    def picture(self) -> str:
        """The hold-out as text, one sign per cell, second factor upwards: · trained, █ held out, ░ in between.

        With more than two factors a sign stands for all values of the others, with one factor there is one row.
        """
        held = self.share()
        signs = np.where(held == 0, "·", np.where(held == 1, "█", "░"))
        return "\n".join("".join(row) for row in signs.T[::-1])

    def share(self) -> Float[np.ndarray, "first second"]:
        """Share of held-out cells over the first two factors."""
        mask = self.mask.reshape(-1, 1) if self.space.n_factors == 1 else self.mask
        return mask.mean(axis=tuple(range(2, mask.ndim)))


def _described(config: dict[str, Any]) -> str:
    kind = config.get("kind", "custom")
    if kind in ("any_of", "all_of"):
        return "(" + (" | " if kind == "any_of" else " & ").join(_described(p) for p in config["parts"]) + ")"
    if kind == "all_but":
        return "~" + _described(config["part"])
    if kind == "mask":
        return "mask"
    shown = [f"{k}={v}" for k, v in config.items() if k != "kind" and v is not None]
    return f"{kind}({', '.join(shown)})"


def _listed(values: Sequence[float], most: int = 8) -> str:
    shown = ", ".join(f"{v:g}" for v in values[:most])
    return shown if len(values) <= most else f"{shown}, … ({len(values)} values)"


def _axes(space: FactorSpace, factors: list[str] | None) -> list[int]:
    names = list(space.names) if factors is None else factors
    if not names or len(set(names)) != len(names):
        raise InputError(f"A hold-out needs a list of different factors of {space}. Got {names}.")
    return [space.axis(name) for name in names]


def _per_axis(space: FactorSpace, axes: list[int], bound: Bound, what: str) -> list[float]:
    """One bound per factor, each within the factor's range."""
    bounds = [float(b) for b in bound] if isinstance(bound, list) else [float(bound)] * len(axes)
    if len(bounds) != len(axes):
        raise InputError(f"{what!r} needs one number, or one for each of {len(axes)} factors. Got {bound}.")
    for axis, value in zip(axes, bounds):
        name, factor = list(space.factors.items())[axis]
        if not factor.takes(value):
            raise InputError(
                f"{what}={value:g} lies outside factor {name!r}, whose values go {factor.range}. "
                "Choose a bound within, or another factor size."
            )
    return bounds


def _between(space: FactorSpace, axes: list[int], lows: list[float], highs: list[float]) -> Rule:
    """values → (…, axis): whether each chosen factor lies in its inclusive interval; cyclic ones may wrap."""
    factors = list(space.factors.values())
    for axis, lo, hi in zip(axes, lows, highs):
        if lo > hi and factors[axis].kind != "cyclic":
            raise InputError(
                f"Bounds of factor {space.names[axis]!r} must have lo ≤ hi (only a cyclic factor wraps). "
                f"Got lo={lo:g}, hi={hi:g}."
            )

    def rule(values: Tensor) -> Tensor:
        columns = []
        for axis, lo, hi in zip(axes, lows, highs):
            factor = factors[axis]
            v, slack = values[..., axis], factor.slack
            if factor.kind == "cyclic":  # into the range, a value just below its start counting as its start
                v = torch.remainder(v - factor.low + slack, factor.extent) + factor.low - slack
            above, below = v >= lo - slack, v <= hi + slack
            columns.append(above & below if lo <= hi else above | below)
        return torch.stack(columns, dim=-1)

    return rule


@HOLDOUTS.register("centre")
def centre(space: FactorSpace, lo: Bound = 6.0, hi: Bound = 22.0, factors: list[str] | None = None) -> Holdout:
    """A box: held out iff lo ≤ value ≤ hi for every factor (or every one of `factors`). The "square donut".

    `lo` and `hi` are one number for all factors or a list with one per factor. N = 28, [6, 22]: 289 of 784 cells.
    """
    axes = _axes(space, factors)
    inside = _between(space, axes, _per_axis(space, axes, lo, "lo"), _per_axis(space, axes, hi, "hi"))
    return Holdout(space, lambda values: inside(values).all(-1))


@HOLDOUTS.register("corner")
def corner(
    space: FactorSpace, threshold: Bound = 12.0, lower: bool = False, factors: list[str] | None = None
) -> Holdout:
    """Held out iff every factor is at or above its threshold; `lower` gives the mirror image at the low corner.

    N = 32, threshold 12: 400 of 1024 cells, either way.
    """
    axes = _axes(space, factors)
    thresholds = _per_axis(space, axes, threshold, "threshold")
    edges = [(f.low, f.high) for f in (list(space.factors.values())[a] for a in axes)]
    if lower:
        lows = [low for low, _ in edges]
        highs = [low + high - t for (low, high), t in zip(edges, thresholds)]
    else:
        lows, highs = thresholds, [math.inf] * len(axes)
    inside = _between(space, axes, lows, highs)
    return Holdout(space, lambda values: inside(values).all(-1))


@HOLDOUTS.register("cross")
def cross(
    space: FactorSpace,
    lo: Bound = 12.0,
    hi: Bound = 15.0,
    margin: Count = 3,
    factors: list[str] | None = None,
) -> Holdout:
    """A cross: all factors but at most one lie in [lo, hi]; the arms stop `margin` cells before the border.

    The margin keeps every single value in training.
    """
    axes = _axes(space, factors)
    chosen = [list(space.factors.values())[a] for a in axes]
    for axis, factor in zip(axes, chosen):
        most = (factor.size - 1) // 2
        if most == 0:
            raise InputError(
                f"A cross needs factors of at least 3 values. Got {factor.size} for factor {space.names[axis]!r}."
            )
        if margin > most:
            raise InputError(
                f"margin={margin} leaves nothing of factor {space.names[axis]!r} between its margins. "
                f"Its {factor.size} values allow at most margin={most}."
            )
    in_bar = _between(space, axes, _per_axis(space, axes, lo, "lo"), _per_axis(space, axes, hi, "hi"))
    reach = _between(space, axes, [f.low + margin * f.step for f in chosen], [f.high - margin * f.step for f in chosen])
    return Holdout(space, lambda values: (in_bar(values).sum(-1) >= max(1, len(axes) - 1)) & reach(values).all(-1))


@HOLDOUTS.register("random")
def random(
    space: FactorSpace,
    fraction: Annotated[float, Field(gt=0, lt=1)] = 0.3,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Holdout:
    """A random set of round(fraction · cells) cells. Off-grid values belong to their nearest cell."""
    chosen = np.random.default_rng(seed).permutation(len(space))[: round(fraction * len(space))]
    held = torch.zeros(len(space), dtype=torch.bool)
    held[torch.from_numpy(chosen)] = True
    return Holdout(space, lambda values: held[space.cells(values).cpu()])


@HOLDOUTS.register("side")
def side(
    space: FactorSpace,
    fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    at: Literal["centre", "corner"] = "centre",
    factors: list[str] | None = None,
) -> Holdout:
    """A box of K = ⌊fraction · N⌋ values per factor, in the centre or in the upper corner of the grid.

    In the centre the box starts at position ⌊(N − K)/2⌋.
    """
    axes = _axes(space, factors)
    lows, highs = [], []
    for axis in axes:
        name, factor = list(space.factors.items())[axis]
        count = math.floor(Fraction(repr(fraction)) * factor.size)  # exact: 0.29 · 100 is 29
        if count == 0:
            raise InputError(
                f"fraction={fraction} of the {factor.size} values of factor {name!r} is no whole value. "
                f"Use at least {1 / factor.size:.3g}."
            )
        start = (factor.size - count) // 2 if at == "centre" else factor.size - count
        lows.append(factor.low + start * factor.step)
        highs.append(factor.low + (start + count - 1) * factor.step)
    inside = _between(space, axes, lows, highs)
    return Holdout(space, lambda values: inside(values).all(-1))


@HOLDOUTS.register("orthotopic")
def orthotopic(
    space: FactorSpace,
    c: Annotated[int, Field(ge=0)] = 1,
    thresholds: Bound = 12.0,
    factors: list[str] | None = None,
) -> Holdout:
    """Trained on iff at most `c` factors are at or above their threshold; held out iff more are."""
    axes = _axes(space, factors)
    above = _between(space, axes, _per_axis(space, axes, thresholds, "thresholds"), [math.inf] * len(axes))
    return Holdout(space, lambda values: above(values).sum(-1) > c)


@HOLDOUTS.register("gap")
def gap(space: FactorSpace, factor: str, lo: Finite, hi: Finite, inclusive: bool = True) -> Holdout:
    """Every combination whose `factor` lies in [lo, hi], or in (lo, hi) if not inclusive.

    lo > hi wraps around on a cyclic factor. By itself a gap takes single values out of training: intersect it
    with another hold-out, or allow unseen values.
    """
    axis = space.axis(factor)
    [lo], [hi] = _per_axis(space, [axis], lo, "lo"), _per_axis(space, [axis], hi, "hi")
    if not inclusive:
        if lo == hi:
            raise InputError(f"A gap without its ends needs lo ≠ hi. Got lo=hi={lo:g}, which holds nothing out.")
        shrink = list(space.factors.values())[axis].step * 1e-3
        lo, hi = lo + shrink, hi - shrink
    inside = _between(space, [axis], [lo], [hi])
    return Holdout(space, lambda values: inside(values).all(-1))


@HOLDOUTS.register("mask")
def from_run_lengths(space: FactorSpace, lengths: list[Annotated[int, Field(ge=0)]]) -> Holdout:
    """Any set of cells, written as alternating run lengths of the flat grid: ID, OOD, ID, … (`mask` makes it)."""
    if sum(lengths) != len(space):
        raise InputError(f"Run lengths must add up to the {len(space)} cells of {space}. Got a sum of {sum(lengths)}.")
    held = torch.repeat_interleave(torch.arange(len(lengths)) % 2 == 1, torch.tensor(lengths))
    return Holdout(space, lambda values: held[space.cells(values).cpu()])


@HOLDOUTS.register("any_of")
def any_of(space: FactorSpace, parts: Annotated[list[Part], Field(min_length=1)]) -> Holdout:
    """Held out by at least one part (`a | b`)."""
    return _combined("any_of", [HOLDOUTS.build(part, space) for part in parts])


@HOLDOUTS.register("all_of")
def all_of(space: FactorSpace, parts: Annotated[list[Part], Field(min_length=1)]) -> Holdout:
    """Held out by every part (`a & b`)."""
    return _combined("all_of", [HOLDOUTS.build(part, space) for part in parts])


@HOLDOUTS.register("all_but")
def all_but(space: FactorSpace, part: Part) -> Holdout:
    """Held out iff the part does not hold it out (`~a`)."""
    return _combined("all_but", [HOLDOUTS.build(part, space)])


def _combined(kind: Combination, parts: list[Holdout]) -> Holdout:
    """The rule of a combination; its configuration is the caller's affair."""

    def rule(values: Tensor) -> Tensor:
        held = (part.contains(values) for part in parts)
        if kind == "all_but":
            return ~next(held)
        return functools.reduce(torch.logical_or if kind == "any_of" else torch.logical_and, held)

    combined = Holdout(parts[0].space, rule)
    combined._combination = kind, parts
    combined._depth = 1 + max(part._depth for part in parts)
    combined._size = sum(part._size for part in parts)
    if combined._depth > MOST_NESTED:
        raise InputError(f"{TOO_DEEP} Or go on with holdouts.mask(space, held.mask).")
    if combined._size > MOST_PARTS:
        raise InputError(
            f"A hold-out is combined of at most {MOST_PARTS} parts, each counted as often as it occurs. "
            "Go on with holdouts.mask(space, held.mask)."
        )
    return combined


def mask(space: FactorSpace, held: Any) -> Holdout:
    """The cells where `held`, an array or nested list in the space's shape (or flat), is true."""
    array = np.asarray(held)
    if array.shape not in (space.shape, (len(space),)):
        raise InputError(f"A mask over {space} must have shape {space.shape} or ({len(space)},). Got {array.shape}.")
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise InputError("A mask holds only true and false (or 1 and 0). Got other values.")
    flat = array.astype(bool).ravel()
    edges = np.flatnonzero(np.diff(flat)) + 1
    lengths = np.diff(np.concatenate(([0], edges, [len(flat)]))).tolist()
    return from_run_lengths(space, lengths=[0, *lengths] if flat[0] else lengths)


def where(space: FactorSpace, function: Callable[..., Any]) -> Holdout:
    """The cells where a function of the named factors is true: `where(space, lambda x, y: (x - y).abs() < 3)`."""
    try:
        inspect.signature(function).bind(**dict.fromkeys(space.names))
    except TypeError as error:
        raise InputError(
            f"A hold-out function takes the factors by their names, here ({', '.join(space.names)}). {error}."
        ) from error
    held = []
    for cells in space.chunks(DEFAULT_CHUNK):
        values = space.values(cells)
        held.append(torch.as_tensor(function(**{name: values[:, a] for a, name in enumerate(space.names)})))
        if held[-1].shape != cells.shape:
            raise InputError(
                f"A hold-out function must give one truth value per cell, shape {tuple(cells.shape)}. "
                f"Got shape {tuple(held[-1].shape)}."
            )
    return mask(space, torch.cat(held).numpy())
