"""What a remedy is, and how remedies are found: every module of `remedies`, and plug-ins.

    from recombine.studies.compare.remedy import REMEDIES, Remedy

    REMEDIES.add("mine", Remedy("mine", {"kind": "my_decoder"}, "our paper"))

gives the remedy its row in `recombine compare`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from recombine.core.catalogue import Catalogue
from recombine.core.errors import InputError

TRIALS = 3  # settings tried of every remedy
RATES: tuple[Mapping[str, Any], ...] = tuple({"training": {"learning_rate": rate}} for rate in (1e-3, 3e-3, 1e-2))


class Block(StrEnum):
    """Which rows may be compared with each other."""

    EQUAL = "equal budget"
    OWN = "own budget"


@dataclass(frozen=True)
class Remedy:
    """A decoder with a way of training it.

    Attributes:
        name: Of its row.
        decoder: Configuration of the decoder, without its width.
        source: Where it was published.
        training: Settings on top of the benchmark's recipe, such as terms and examples.
        trials: Settings that are tried, by group; the same number for every remedy.
        width: The decoder's setting that is chosen so that it has as many parameters as the others; None if its size
            follows from its definition, which puts it into the block of remedies with their own budget.
        multiple: What that setting must be divisible by.
        slotted: Told which factors belong to one object (setting `slots`), where the scene states that.
        counted: Told how many objects there are (setting `terms`), where the scene states that.
        parameters, steps: Multiples of the common budget. Others than 1 put it into the other block.
        control: The remedy that is given the same extra, to compare with.
        extra: Trained on more than the ID pictures.
        order: Place in tables.
    """

    name: str
    decoder: Mapping[str, Any]
    source: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    trials: Sequence[Mapping[str, Any]] = RATES
    width: str | None = "width"
    multiple: int = 1
    slotted: bool = False
    counted: bool = False
    parameters: float = 1.0
    steps: float = 1.0
    control: str | None = None
    extra: bool = False
    order: int = 100

    def __post_init__(self) -> None:
        if len(self.trials) != TRIALS:
            raise InputError(
                f"Every remedy is tuned by {TRIALS} trials, so that none is tuned more than others. Remedy "
                f"{self.name!r} has {len(self.trials)}.",
                "trials",
            )

    @property
    def block(self) -> Block:
        equal = self.width is not None and self.parameters == self.steps == 1 and not self.extra
        return Block.EQUAL if equal else Block.OWN


REMEDIES = Catalogue[Remedy]("remedy", "recombine.studies.compare.remedies")


def with_weights(term: str, weight: float) -> tuple[Mapping[str, Any], ...]:
    """Trials of a penalty: two weights at the middle rate, and the smaller one at a lower rate."""
    return tuple(
        {"training": {"learning_rate": rate, "terms": {term: {"weight": w}}}}
        for rate, w in ((1e-3, weight), (3e-3, weight), (3e-3, 10 * weight))
    )
