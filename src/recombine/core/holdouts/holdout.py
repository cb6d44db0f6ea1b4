"""A hold-out: which combinations of factor values are never trained on; its algebra, counts, hash and picture."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, shown
from recombine.core.holdouts import measures
from recombine.core.registry import MOST_NESTED, TOO_DEEP, Family

HOLDOUTS = Family("holdout", (FactorSpace,))
Rule = Callable[[Tensor], Tensor]
CHUNK = 2**16  # cells whose rule is evaluated at a time
MOST_PARTS = 10_000  # of a combination: written twice in every round, parts would double in each
Combination = Literal["any_of", "all_of", "all_but"]


@dataclass(frozen=True)
class Coverage:
    """Which single factor values are held out somewhere and never occur in training."""

    unseen: dict[str, list[float]]
    labels: dict[str, list[str]] = field(default_factory=dict, repr=False)

    @property
    def complete(self) -> bool:
        """True if only combinations are new: every single value of every factor is trained on."""
        return not any(self.unseen.values())

    def __str__(self) -> str:
        if self.complete:
            return "every value of every factor is seen in training"
        parts = [f"{name} ∈ {{{shown(labels)}}}" for name, labels in self.labels.items() if labels]
        return "never seen in training: " + "; ".join(parts)


class Holdout:
    """A set of held-out combinations over a factor space; combine with `|`, `&`, `~`.

    Args:
        space: The factor space.
        rule: Factor values (…, factor) → True where held out.
        config: Configuration that rebuilds the hold-out; set by this package's functions. It does not contain which
            cells are available; the scene defines that.
    """

    def __init__(self, space: FactorSpace, rule: Rule, config: dict[str, Any] | None = None) -> None:
        self.space = space
        self._config = config
        self._rule = rule
        self._available: Bool[np.ndarray, "..."] | None = None  # None: all cells
        self._combination: tuple[Combination | None, list[Holdout]] = (None, [])  # how, and of what, it was combined
        self._depth = 0  # of parts within parts
        self._size = 1  # parts in all

    @property
    def config(self) -> dict[str, Any]:
        """The configuration that rebuilds the hold-out; for a custom rule, its mask over the grid."""
        if self._config is None:
            self._config = {"kind": "mask", "lengths": run_lengths(self.mask)}
        return self._config

    @config.setter
    def config(self, config: dict[str, Any]) -> None:
        self._config = config

    @staticmethod
    def unseen(space: FactorSpace, labels: Any, *, test: Any = None) -> Holdout:
        """The cells that no training example has; see `holdouts.unseen`."""
        from recombine.core.holdouts.labels import unseen

        return unseen(space, labels, test=test)

    def contains(self, values: Real[Tensor, "*shape factor"]) -> Bool[Tensor, "*shape"]:
        """True for each combination of factor values that the rule holds out, available or not."""
        return self._rule(self.space.checked(values)).bool()

    @cached_property
    def mask(self) -> Bool[np.ndarray, "..."]:
        """True for each cell that the rule holds out, available or not, in the space's shape (one byte per cell).

        Use `id_mask` and `ood_mask` to select cells: `~mask` includes unavailable ones.
        """
        flat = np.empty(len(self.space), dtype=bool)
        for cells in self.space.chunks(CHUNK):
            flat[cells[0] : cells[-1] + 1] = self.contains(self.space.values(cells)).numpy()
        return flat.reshape(self.space.shape)

    @cached_property
    def available(self) -> Bool[np.ndarray, "..."]:
        """True for each cell that exists; all of them unless `within` says otherwise."""
        return np.ones(self.space.shape, dtype=bool) if self._available is None else self._available

    def within(self, available: Any) -> Holdout:
        """The same hold-out where only some cells exist: all others are neither trained on nor held out.

        Args:
            available: Array or nested list in the space's shape (or flat), true where the cell exists.
        """
        limited = copy.copy(self)
        for name in ("available", "id_mask", "ood_mask", "hash"):
            limited.__dict__.pop(name, None)
        limited._available = self.available & as_mask(self.space, available)
        return limited

    @cached_property
    def id_mask(self) -> Bool[np.ndarray, "..."]:
        """True for each available cell that is trained on, in the space's shape."""
        return self.available & ~self.mask

    @cached_property
    def ood_mask(self) -> Bool[np.ndarray, "..."]:
        """True for each available cell that is held out, in the space's shape."""
        return self.available & self.mask

    @property
    def n_ood(self) -> int:
        """The number of held-out cells."""
        return int(self.ood_mask.sum())

    @property
    def n_id(self) -> int:
        """The number of cells that are trained on."""
        return int(self.id_mask.sum())

    @property
    def n_unavailable(self) -> int:
        """The number of combinations that do not exist."""
        return len(self.space) - int(self.available.sum())

    @property
    def ood_cells(self) -> Int[Tensor, " cell"]:
        """The numbers of the held-out cells, ascending."""
        return torch.from_numpy(np.flatnonzero(self.ood_mask))

    @property
    def id_cells(self) -> Int[Tensor, " cell"]:
        """The numbers of the cells that are trained on, ascending."""
        return torch.from_numpy(np.flatnonzero(self.id_mask))

    @property
    def available_cells(self) -> Int[Tensor, " cell"]:
        """The numbers of the ID and OOD cells, ascending."""
        return torch.from_numpy(np.flatnonzero(self.available))

    def coverage(self) -> Coverage:
        """For each factor, the values that are held out somewhere and that no ID cell has."""
        unseen, labels = {}, {}
        for axis, (name, factor) in enumerate(self.space.factors.items()):
            others = tuple(a for a in range(self.space.n_factors) if a != axis)
            never = np.flatnonzero(self.ood_mask.any(axis=others) & ~self.id_mask.any(axis=others))
            unseen[name] = factor.grid()[torch.from_numpy(never)].double().tolist()
            labels[name] = [factor.labels[place] for place in never]
        return Coverage(unseen, labels)

    def covered_order(self) -> int:
        """The highest order of combinations that training covers.

        The largest k for which every k values that occur together in an OOD cell do so in some ID cell: 0 if single
        values are never trained on, 1 if some pair of values never occurs together (the hard case), 2 if all pairs
        do, and so on.
        """
        return measures.covered_order(self.id_mask, self.ood_mask)

    def levels(self) -> Int[np.ndarray, "..."]:
        """In how many factors each cell differs from its nearest ID cell, in the space's shape: 0 for ID cells."""
        return measures.levels(self.id_mask)

    def components(self) -> int:
        """The number of connected components of all factor values, where each ID cell connects the values it combines.

        With two factors, the components of the bipartite graph of trained pairs. Values that no ID cell has count one
        each.
        """
        return measures.components(self.id_mask, self.available)

    def pixel_coverage(
        self, scene: Callable[[Tensor], Tensor], background: Float[Tensor, "..."] | float | None = None
    ) -> float:
        """Share of the energy of the OOD images in pixels that are lit in some ID image.

        A pixel is lit in an image if it differs from the background by at least 0.05. Drawing in pixels that are not
        covered is spatial extrapolation, not composition. The energy of an image is its squared difference from the
        background; channels of a pixel count separately.

        Args:
            scene: Factor values (cell, factor) → images (cell, …).
            background: An image or number; by default the median of up to 512 ID images.

        Returns:
            A number in [0, 1]; NaN if the OOD images are nothing but background.
        """
        return measures.pixel_coverage(scene, self.space, self.id_cells, self.ood_cells, background)

    @cached_property
    def hash(self) -> str:
        """Hash of the ID and OOD cells and the space; it does not depend on how the hold-out was specified."""
        digest = hashlib.sha256(json.dumps(self.space.to_config(), sort_keys=False).encode())
        digest.update(np.packbits(self.ood_mask).tobytes())
        if self.n_unavailable:
            digest.update(np.packbits(self.available).tobytes())
        return digest.hexdigest()[:16]

    def check(self, *, allow_unseen: bool = False) -> None:
        """Raise unless there are ID and OOD cells and every single factor value is trained on."""
        if not self.available.any():
            raise InputError(f"No cell of {self.space} is available, so there is nothing to train on or to hold out.")
        if self.n_ood == 0:
            raise InputError(f"The hold-out {self} is empty, so there are no OOD cells. Choose wider bounds.")
        if self.n_id == 0:
            raise InputError(
                f"The hold-out {self} covers the whole grid, so there are no ID cells. Choose narrower bounds."
            )
        coverage = self.coverage()
        if not allow_unseen and not coverage.complete:
            raise InputError(
                f"The hold-out {self} removes factor values from training entirely ({coverage}). A failure on them "
                "would not be a failure to compose. Choose narrower bounds, or allow it (allow_unseen=True; on the "
                "command line training.allow_unseen=true)."
            )

    def __or__(self, other: Holdout) -> Holdout:
        return self._with("any_of", other)

    def __and__(self, other: Holdout) -> Holdout:
        return self._with("all_of", other)

    def __invert__(self) -> Holdout:
        how, parts = self._combination
        if how == "all_but":
            return parts[0] if self._available is None else parts[0].within(self._available)
        inverted = combined("all_but", [self])
        inverted.config = {"kind": "all_but", "part": self.config}
        return inverted

    def _with(self, kind: Combination, other: Holdout) -> Holdout:
        """Both hold-outs combined; the parts of one that is of the same kind already join the others in one list."""
        parts: list[Holdout] = []
        for held in (self, self._same_space(other)):
            how, inner = held._combination
            parts += inner if how == kind else [held]
        both = combined(kind, parts)
        if self._available is not None or other._available is not None:
            both._available = self.available & other.available
        both.config = {"kind": kind, "parts": [part.config for part in parts]}
        return both

    def _same_space(self, other: Holdout) -> Holdout:
        if not isinstance(other, Holdout):
            raise InputError(f"The operators |, & and ~ combine hold-outs only. Got {other!r} instead.")
        if other.space != self.space:
            raise InputError(
                f"Hold-outs can be combined only if they share a factor space. Got {self.space} and {other.space}."
            )
        return other

    def __repr__(self) -> str:
        exist = len(self.space) - self.n_unavailable
        gone = f", {self.n_unavailable} unavailable" if self.n_unavailable else ""
        return (
            f"<{_described(self.config)} of {self.space}: {self.n_ood} of {exist} cells held out "
            f"({100 * self.n_ood / max(exist, 1):.1f} %){gone}>"
        )

    def picture(self) -> str:
        """The hold-out as text, one character per cell, second factor upwards.

        · trained, █ held out, ░ partly held out, / unavailable. With more than two factors, a character summarizes
        all available values of the others. With one factor, there is one row.
        """
        held = self.share()
        signs = np.where(np.isnan(held), "/", np.where(held == 0, "·", np.where(held == 1, "█", "░")))
        return "\n".join("".join(row) for row in signs.T[::-1])

    def share(self) -> Float[np.ndarray, "first second"]:
        """Share of held-out cells among the available ones over the first two factors; NaN where none is."""
        shape = (-1, 1) if self.space.n_factors == 1 else self.space.shape
        ood, exist = (mask.reshape(shape) for mask in (self.ood_mask, self.available))
        others = tuple(range(2, ood.ndim))
        held, counted = ood.sum(axis=others), exist.sum(axis=others)
        return np.divide(held, counted, out=np.full(held.shape, np.nan), where=counted > 0)


def _described(config: dict[str, Any]) -> str:
    kind = config.get("kind", "custom")
    if kind in ("any_of", "all_of"):
        return "(" + (" | " if kind == "any_of" else " & ").join(_described(p) for p in config["parts"]) + ")"
    if kind == "all_but":
        return "~" + _described(config["part"])
    if kind == "mask":
        return "mask"
    given = [f"{k}={v}" for k, v in config.items() if k != "kind" and v is not None]
    return f"{kind}({', '.join(given)})"


def combined(kind: Combination, parts: list[Holdout]) -> Holdout:
    """The rule of a combination; the caller sets its configuration."""

    def rule(values: Tensor) -> Tensor:
        held = (part.contains(values) for part in parts)
        if kind == "all_but":
            return ~next(held)
        return functools.reduce(torch.logical_or if kind == "any_of" else torch.logical_and, held)

    made = Holdout(parts[0].space, rule)
    if any(part._available is not None for part in parts):
        made._available = functools.reduce(np.logical_and, [part.available for part in parts])
    made._combination = kind, parts
    made._depth = 1 + max(part._depth for part in parts)
    made._size = sum(part._size for part in parts)
    if made._depth > MOST_NESTED:
        raise InputError(f"{TOO_DEEP} Alternatively, use holdouts.mask(space, held.mask).")
    if made._size > MOST_PARTS:
        raise InputError(
            f"A hold-out can combine at most {MOST_PARTS} parts, counting repeated parts. Use holdouts.mask(space, "
            "held.mask) instead."
        )
    return made


def as_mask(space: FactorSpace, given: Any) -> Bool[np.ndarray, "..."]:
    """A mask over the grid, in the space's shape; anything else is an error."""
    array = np.asarray(given)
    if array.shape not in (space.shape, (len(space),)):
        raise InputError(f"A mask over {space} must have shape {space.shape} or ({len(space)},). Got {array.shape}.")
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise InputError("A mask must contain only true and false (or 1 and 0). Got other values.")
    return array.astype(bool).reshape(space.shape)


def run_lengths(mask: Bool[np.ndarray, "..."]) -> list[int]:
    """Alternating run lengths of the flat mask: how many are false, true, false, …"""
    flat = mask.ravel()
    edges = np.flatnonzero(np.diff(flat)) + 1
    lengths = np.diff(np.concatenate(([0], edges, [len(flat)]))).tolist()
    return [0, *lengths] if flat[0] else lengths
