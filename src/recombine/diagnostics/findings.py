"""The result of one part of a diagnosis: tables, arrays, facts, and missing results with their reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recombine.core.errors import InputError, Missing, MissingPart, NotComputable
from recombine.core.tables import Rows

if TYPE_CHECKING:
    import pandas


class Absence(NamedTuple):
    """The reason why something is missing: a state for programs, a text for people."""

    state: Missing
    reason: str

    @classmethod
    def of(cls, error: NotComputable | MissingPart) -> Absence:
        return cls(error.state, error.reason)

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, eq=False)
class PartResult:
    """The result of one part.

    Attributes:
        name: Name of the part.
        tables: By name, the main one first; each a list of rows with the same columns.
        arrays: By name; those of a layer are called `what/layer`.
        facts: How it was computed: settings, samples, methods. JSON values.
        missing: Missing result → reason. The name of the part stands for the whole part.
    """

    name: str
    tables: dict[str, Rows] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, Absence] = field(default_factory=dict)

    @classmethod
    def absent(cls, name: str, state: Missing, reason: str) -> PartResult:
        return cls(name, missing={name: Absence(state, reason)})

    @property
    def computed(self) -> bool:
        return self.name not in self.missing

    @property
    def state(self) -> Missing | None:
        """Why the whole part is missing; None if it was computed."""
        return None if self.computed else self.missing[self.name].state

    @property
    def reason(self) -> str:
        """The text that explains `state`; empty if the part was computed."""
        return "" if self.computed else self.missing[self.name].reason

    @property
    def rows(self) -> Rows:
        """The main table."""
        return self.table()

    def table(self, name: str | None = None) -> Rows:
        """A table by name; by default the main one."""
        if not self.computed:
            raise MissingPart(self.name, *self.missing[self.name])
        name = next(iter(self.tables), "") if name is None else name
        if name not in self.tables:
            raise InputError(f"The part {self.name!r} has no table {name!r}. Tables: {', '.join(self.tables)}.")
        return self.tables[name]

    def to_pandas(self, table: str | None = None) -> pandas.DataFrame:
        import pandas

        return pandas.DataFrame(self.table(table))

    def by_layer(self, what: str) -> dict[str, np.ndarray]:
        """The arrays called `what/layer`, by layer."""
        return {name.partition("/")[2]: a for name, a in self.arrays.items() if name.partition("/")[0] == what}


def json_able(value: Any) -> Any:
    """Convert NumPy numbers to Python numbers, and numbers that JSON cannot represent to None."""
    if isinstance(value, Mapping):
        return {str(k): json_able(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [json_able(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
