"""The verdict and the numbers on which it is based."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from recombine.diagnostics.cells.classes import CellClass
from recombine.diagnostics.cells.thresholds import Thresholds
from recombine.diagnostics.verdict.kinds import Undecided, VerdictKind


@dataclass(frozen=True)
class FactorValues:
    """How often outputs show the right value of one factor.

    Attributes:
        factor: Its name.
        unseen: Share of unseen cells.
        trained: Share of trained cells.
        fails: Whether unseen cells mostly show wrong values, or trained cells do already.
        chance: Share of unseen cells if the values shown did not depend on the true ones.
    """

    factor: str
    unseen: float
    trained: float
    fails: bool
    chance: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """What a model does with unseen combinations.

    Attributes:
        kind: The verdict as an enum.
        sentence: The verdict as a sentence, with the main numbers.
        reason: Why it is undecided; None if it is not.
        unseen_cells, trained_cells: Number of classified cells; trained ones as if they were unseen.
        drawn_from: Number of unseen cells, if only a sample of them was classified; None if all were.
        right: Share of unseen cells that are right; NaN if unknown.
        interval: Its 95 % interval, with cells as a sample of all combinations (Wilson), or over runs if there are
            several.
        unseen, trained: Share of the cells in each class that occurs.
        manner: The most frequent class among unseen cells that are not right; None if all are.
        factors: A row per factor; empty without truth.
        id_error, ood_error: Squared error over the truth's variance around the mean trained image, both summed over
            trained cells (`id_error`) or over unseen cells (`ood_error`). The metric `relative_error` differs: it
            divides by the variance over all available cells.
        strength: Contrast of trained outputs relative to the truth; 1 if it is the same.
        blurred: Whether trained outputs lack the truth's fine detail.
        noisy: Whether trained outputs differ from the truth in another way, by more than the threshold `right`.
        runs: Number of runs.
        kinds: For several runs, the number of runs with each verdict; empty for one.
        thresholds: The thresholds that were used.
    """

    kind: VerdictKind
    sentence: str
    reason: Undecided | None = None
    unseen_cells: int = 0
    trained_cells: int = 0
    drawn_from: int | None = None
    right: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    unseen: Mapping[CellClass, float] = field(default_factory=dict)
    trained: Mapping[CellClass, float] = field(default_factory=dict)
    manner: CellClass | None = None
    factors: tuple[FactorValues, ...] = ()
    id_error: float = math.nan
    ood_error: float = math.nan
    strength: float = math.nan
    blurred: bool = False
    noisy: bool = False
    runs: int = 1
    kinds: Mapping[VerdictKind, int] = field(default_factory=dict)
    thresholds: Thresholds = field(default_factory=Thresholds)

    @property
    def failing(self) -> tuple[str, ...]:
        """The factors that fail."""
        return tuple(row.factor for row in self.factors if row.fails)

    @property
    def explanation(self) -> str:
        """The sentence."""
        return self.sentence

    def __str__(self) -> str:
        return self.sentence

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON values; NaN becomes None."""
        content = asdict(self)
        content["failing"] = list(self.failing)
        for name in ("drawn_from", "kinds"):  # only where they say something
            if not content[name]:
                del content[name]
        return {key: _plain(value) for key, value in content.items()}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Verdict:
        """The inverse of `to_json`."""
        fields = {key: value for key, value in given.items() if key != "failing"}
        numbers = ("right", "id_error", "ood_error", "strength")
        fields |= {name: math.nan if fields[name] is None else fields[name] for name in numbers}
        fields["kind"] = VerdictKind(fields["kind"])
        fields["reason"] = None if fields["reason"] is None else Undecided(fields["reason"])
        fields["manner"] = None if fields["manner"] is None else CellClass(fields["manner"])
        fields["interval"] = tuple(math.nan if end is None else end for end in fields["interval"])
        for side in ("unseen", "trained"):
            fields[side] = {CellClass(name): share for name, share in fields[side].items()}
        fields["kinds"] = {VerdictKind(name): count for name, count in fields.get("kinds", {}).items()}
        fields["factors"] = tuple(FactorValues(**row) for row in fields["factors"])
        fields["thresholds"] = Thresholds(**fields["thresholds"])
        return cls(**fields)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, VerdictKind | Undecided | CellClass) else value
