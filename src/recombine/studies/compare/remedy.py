"""The definition of a remedy, and the registry of remedies: every module of `remedies`, and plug-ins.

    from recombine.studies.compare.remedy import REMEDIES, Remedy

    REMEDIES.add("mine", Remedy("mine", {"kind": "my_decoder"}, "our paper"))

adds a row for the remedy to `recombine compare`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from recombine.core.catalogue import Catalogue
from recombine.core.errors import InputError

TRIALS = 3  # number of settings tried for every remedy
NOT_MINI = ("small", "full")  # suites of most built-in remedies
RATES: tuple[Mapping[str, Any], ...] = tuple({"training": {"learning_rate": rate}} for rate in (3e-3, 1e-2, 3e-2))


BUDGET = {"steps", "epochs", "batch", "examples"}  # training settings that change what a remedy is trained on


class Block(StrEnum):
    """Rows are only comparable within a block."""

    EQUAL = "equal budget"
    OWN = "own budget"


@dataclass(frozen=True)
class Remedy:
    """A decoder together with a way of training it.

    Attributes:
        name: Name of its row.
        decoder: Configuration of the decoder, without its width.
        source: The publication.
        training: Settings on top of the benchmark's recipe, such as terms and examples.
        trials: Settings to try, by group; the same number for every remedy.
        trial: Settings that trials have and the reported run has not, by group.
        width: The decoder's setting that is adjusted to meet the parameter budget. None if the size follows from the
            definition, which puts the remedy into the block of remedies with their own budget.
        multiple: The setting must be divisible by this number.
        slotted: Whether the decoder is given the factors of each object (setting `slots`), if the scene declares them.
        counted: Whether the decoder is given the number of objects (setting `terms`), if the scene declares it.
        parameters, steps: Multiples of the common budget. Values other than 1 put the remedy into the other block.
        control: The control remedy, which receives the same extra data or budget.
        extra: Whether it trains on more than the ID images.
        released: Share of the held-out cells that it also trains on, drawn at random. Results use the other cells.
        suites: The suites that it belongs to.
        order: Position in tables.
    """

    name: str
    decoder: Mapping[str, Any]
    source: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    trials: Sequence[Mapping[str, Any]] = RATES
    trial: Mapping[str, Any] = field(default_factory=dict)
    width: str | None = "width"
    multiple: int = 1
    slotted: bool = False
    counted: bool = False
    parameters: float = 1.0
    steps: float = 1.0
    control: str | None = None
    extra: bool = False
    released: float = 0.0
    suites: Sequence[str] = ("mini", "small", "full")
    order: int = 100

    def __post_init__(self) -> None:
        groups = [self.decoder, self.training, self.trial, *self.trials]
        nested = [
            settings
            for group in (self.trial, *self.trials)
            if isinstance(group, Mapping)
            for settings in group.values()
        ]
        if not all(isinstance(group, Mapping) for group in (*groups, *nested)):
            raise InputError(
                f"Decoder, training, trial and trials of remedy {self.name!r} must be groups of settings, such as "
                '{"training": {"learning_rate": 1e-3}}.',
                "trials",
            )
        if not 0 <= self.released < 1 or self.steps <= 0 or self.parameters <= 0:
            raise InputError(
                f"`released` of remedy {self.name!r} must be from 0 to below 1, and its `steps` and `parameters` above "
                f"0. Got {self.released:g}, {self.steps:g} and {self.parameters:g}.",
                "released",
            )
        if len(self.trials) != TRIALS:
            raise InputError(
                f"Every remedy must have {TRIALS} tuning trials, so that none is tuned more than the others. Remedy "
                f"{self.name!r} has {len(self.trials)}.",
                "trials",
            )

    @property
    def block(self) -> Block:
        """The block of the table that the remedy belongs to."""
        equal = self.width is not None and self.parameters == self.steps == 1 and not (self.extra or self.released)
        return Block.EQUAL if equal and not self._own_budget() else Block.OWN

    def _own_budget(self) -> bool:
        """Whether the settings themselves change steps, batch, examples or the decoder of a trial."""
        trained = [self.training, *(trial.get("training", {}) for trial in self.trials)]
        return any(BUDGET & set(settings) for settings in trained) or any(set(t) - {"training"} for t in self.trials)


class Remedies(Catalogue[Remedy]):
    """Remedies by name."""

    def add(self, name: str, member: Remedy) -> Remedy:
        """Add a remedy under its own name."""
        if member.name != name:
            raise InputError(f"Remedy {member.name!r} must be added under its own name. Got {name!r}.", "remedies")
        return super().add(name, member)

    def is_foreign(self, remedy: Remedy) -> bool:
        """Whether a plug-in added the remedy, so that an error in it must not affect other remedies."""
        return remedy.name in self.origin


REMEDIES = Remedies("remedy", "recombine.studies.compare.remedies")


def add_in_order(first: int, remedies: Sequence[Remedy]) -> None:
    """Add several remedies at consecutive positions in tables, starting at `first`."""
    for order, remedy in enumerate(remedies, first):
        REMEDIES.add(remedy.name, replace(remedy, order=order))


def with_weights(term: str, weight: float) -> tuple[Mapping[str, Any], ...]:
    """Trials of a penalty: two weights at the middle learning rate, and the smaller weight at a higher rate."""
    return tuple(
        {"training": {"learning_rate": rate, "terms": {term: {"weight": w}}}}
        for rate, w in ((1e-2, weight), (3e-2, weight), (1e-2, 10 * weight))
    )
