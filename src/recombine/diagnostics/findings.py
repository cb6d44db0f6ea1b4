"""One part of a diagnosis: tables, arrays, facts, and what is missing and why. Plain enough to be written as files."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.core.errors import InputError, StoreError

if TYPE_CHECKING:
    import pandas

Rows = list[dict[str, Any]]
_TYPES = {"bool": lambda text: text == "True", "int": int, "float": float, "str": str}


@dataclass(frozen=True, eq=False)
class PartResult:
    """What one diagnostic found.

    Attributes:
        name: Which one.
        tables: By name, the main one first; each a list of rows with the same columns.
        arrays: By name; those of a layer are called `what/layer`.
        facts: How it was computed: settings, draws, methods. JSON-able.
        missing: What could not be told → why. The part's own name stands for all of it.
    """

    name: str
    tables: dict[str, Rows] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def absent(cls, name: str, reason: str) -> PartResult:
        return cls(name, missing={name: reason})

    @property
    def computed(self) -> bool:
        return self.name not in self.missing

    @property
    def rows(self) -> Rows:
        """The main table."""
        return self.table()

    def table(self, name: str | None = None) -> Rows:
        """A table by name; the main one unless given."""
        if not self.computed:
            raise InputError(f"The part {self.name!r} is missing: {self.missing[self.name]}")
        name = next(iter(self.tables)) if name is None else name
        if name not in self.tables:
            raise InputError(f"The part {self.name!r} has no table {name!r}. Tables: {', '.join(self.tables)}.")
        return self.tables[name]

    def to_pandas(self, table: str | None = None) -> pandas.DataFrame:
        import pandas

        return pandas.DataFrame(self.table(table))

    def by_layer(self, what: str) -> dict[str, np.ndarray]:
        """The arrays called `what/layer`, by layer."""
        return {name.partition("/")[2]: a for name, a in self.arrays.items() if name.partition("/")[0] == what}


def column_types(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The type of each column: bool, int, float or str. What is None becomes NaN."""
    types = {}
    for column in rows[0] if rows else ():
        values = [row[column] for row in rows]
        kinds = {type(v) for v in values}
        if kinds == {bool}:
            types[column] = "bool"
        elif kinds == {int}:
            types[column] = "int"
        else:
            types[column] = "float" if all(v is None or isinstance(v, int | float) for v in values) else "str"
    return types


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table as text; reading the numbers gives them back exactly."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    types = column_types(rows)
    writer.writerow(types)
    for row in rows:
        writer.writerow([math.nan if row[c] is None and t == "float" else row[c] for c, t in types.items()])
    return text.getvalue()


def from_csv(text: str, types: Mapping[str, str]) -> Rows:
    """What `to_csv` wrote, given the types of its columns."""
    try:
        found = list(csv.DictReader(io.StringIO(text)))
        return [{column: _TYPES[kind](row[column]) for column, kind in types.items()} for row in found]
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"A table of the diagnosis cannot be read: {error!r}.") from error


def json_able(value: Any) -> Any:
    """Numbers that JSON does not know become null, numpy's become plain ones."""
    if isinstance(value, Mapping):
        return {str(k): json_able(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [json_able(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
