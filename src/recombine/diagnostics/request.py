"""A request for a diagnosis: which parts, of which layers, with which settings. Stored as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypedDict

from recombine.core.errors import InputError
from recombine.core.registry import nearest
from recombine.diagnostics.model.grid_activations import MEMORY
from recombine.diagnostics.numerics.budget import SECONDS
from recombine.diagnostics.numerics.superposition import PICTURES

METHODS = ("exact", "finite difference")
BOTH = "both"
MOST_DRAWS = 1000
SHARED = ("layers", "seed")  # settings that all parts of one diagnosis have in common


class RequestOptions(TypedDict, total=False):
    """The fields of a `DiagnosisRequest` as keywords."""

    parts: Sequence[str] | None
    layers: Sequence[str] | None
    geometry: Sequence[str]
    seed: int
    memory: int
    pictures: int | Sequence[int]
    budget: int | float
    draws: int
    settings: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class DiagnosisRequest:
    """What to compute.

    Attributes:
        parts: The parts; None for all, including those of plug-ins, except parts that are computed on request only.
        layers: Names or patterns of modules, "in", "out"; None for the code, every nonlinearity and the output. See
            `recombine.diagnostics.model.layers`.
        geometry: How metric tensors are computed: "exact" (derivatives), "finite difference" (on the grid), or "both".
        seed: Seed of all random numbers.
        memory: Bytes of activations held at a time, in addition to the outputs over the grid and the truth. Layers that
            do not fit together are computed one after the other. A layer that does not fit by itself is represented by
            a random sample of its units, which the result records.
        pictures: Number of OOD cells whose pictures the superposition part stores, or the indices of these cells.
        budget: Approximate seconds of one core for the searches of each part (kernels, complexity). Operations are
            counted instead of time, so that the same seed gives the same result. A search that exceeds its budget tries
            less, which its tables record.
        draws: Number of draws of the model's noise. With more than one, the part `draws` compares the outputs and
            the verdicts of all draws and of their mean; the other parts describe the first draw.
        settings: Part → settings of its own, such as {"brightness": {"bins": 20}}. Parts declare their settings and
            defaults (`Part.settings`).

    Lists become tuples, and a single name becomes a tuple of one, so that equal requests compare equal.
    """

    parts: Sequence[str] | None = None
    layers: Sequence[str] | None = None
    geometry: Sequence[str] = ("exact",)
    seed: int = 0
    memory: int = MEMORY
    pictures: int | Sequence[int] = PICTURES
    budget: int | float = SECONDS
    draws: int = 1
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in ("parts", "layers", "geometry", "pictures"):
            object.__setattr__(self, name, _as_tuple(getattr(self, name)))
        if self.geometry == (BOTH,):
            object.__setattr__(self, "geometry", METHODS)
        self._check()

    def _check(self) -> None:
        if self.parts == ():
            raise InputError("No part was selected. Omit the selection for all parts.", "parts")
        if self.layers == ():
            raise InputError(
                'No layers were selected. Give names or patterns such as "layers.*.act", or None for all.', "layers"
            )
        for name in ("parts", "layers"):
            for word in getattr(self, name) or ():
                if not isinstance(word, str):
                    raise InputError(f"The {name} must be given by name, such as 'probes' or '1'. Got {word!r}.", name)
        wrong = [method for method in self.geometry if method not in METHODS]
        if wrong or not self.geometry:
            raise InputError(
                f"The geometry must be {', '.join(METHODS)} or {BOTH}. Got {(wrong or [None])[0]!r}.", "geometry"
            )
        if isinstance(self.memory, bool) or not isinstance(self.memory, int) or self.memory < 1:
            raise InputError(
                f"The memory must be a number of bytes, at least 1, such as 2**30. Got {self.memory!r}.", "memory"
            )
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise InputError(f"The seed must be an integer. Got {self.seed!r}.", "seed")
        if isinstance(self.budget, bool) or not isinstance(self.budget, int | float) or not 0 < self.budget < math.inf:
            raise InputError(
                f"The budget must be a number of seconds above 0, such as {SECONDS:g}. Got {self.budget!r}.", "budget"
            )
        if isinstance(self.draws, bool) or not isinstance(self.draws, int) or not 1 <= self.draws <= MOST_DRAWS:
            raise InputError(
                f"The number of draws must be an integer from 1 to {MOST_DRAWS}. Got {self.draws!r}.", "draws"
            )
        given = self.settings
        if not isinstance(given, Mapping) or not all(isinstance(settings, Mapping) for settings in given.values()):
            expected = '{"brightness": {"bins": 20}}'
            raise InputError(
                f"Settings must map parts to their settings, such as {expected}. Got {given!r}.", "settings"
            )
        cells = (self.pictures,) if isinstance(self.pictures, int) else self.pictures
        if any(isinstance(cell, bool) or not isinstance(cell, int) or cell < 0 for cell in cells):
            raise InputError(
                f"Pictures must be a number of cells or a list of cells. Got {self.pictures!r}.", "pictures"
            )

    @property
    def shared(self) -> dict[str, Any]:
        """The settings that all parts of one diagnosis must share."""
        return {name: value for name, value in self.to_json().items() if name in SHARED}

    def budget_facts(self, cut_short: bool) -> dict[str, Any]:
        """The facts of a part about its budget: the budget, and whether it cut the search short."""
        return {"budget": self.budget, "cut_short": cut_short}

    def same_budget(self, facts: Mapping[str, Any]) -> bool:
        """Whether the budget of this request would give the same result as one with these facts."""
        return not facts.get("cut_short") or facts.get("budget") == self.budget

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; `from_json` reads them back."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> DiagnosisRequest:
        """The inverse of `to_json`; missing fields have their defaults."""
        known = [known.name for known in fields(cls)]
        for name in given:
            if name not in known:
                raise InputError(
                    f"A diagnosis has no option {name!r}{nearest(name, known)}. Options: {', '.join(known)}.", name
                )
        return cls(**given)


def _as_tuple(value: Any) -> Any:
    """A single name as a tuple of one; lists and arrays as tuples."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, int | None):
        return value
    return tuple(part.item() if hasattr(part, "item") else part for part in value)
