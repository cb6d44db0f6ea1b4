"""Tables as CSV text: one writer and one reader for scores, diagnoses, sweeps and studies.

Numbers are written so that they are read back exactly. Missing entries (None, NaN) are empty. Text that a spreadsheet
would interpret as a formula is prefixed with an apostrophe, which is removed when the table is read.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from recombine.core.errors import DamagedError

Rows = list[dict[str, Any]]
FORMULA = ("=", "+", "-", "@")
_READ = {
    "bool": lambda text: text == "True",
    "int": int,
    "float": lambda text: math.nan if text == "" else float(text),
    "str": lambda text: text[1:] if text.startswith("'") and _is_formula(text) else text,
}


def to_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """A table as text. By default, the columns are those of all rows; missing entries are empty."""
    columns = list(columns or dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_written(row.get(column)) for column in columns] for row in rows)
    return text.getvalue()


def _written(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, Mapping | list | tuple):
        value = json.dumps(value, sort_keys=True)
    return f"'{value}" if isinstance(value, str) and _is_formula(value) else value


def _is_formula(text: str) -> bool:
    return text.lstrip("'").startswith(FORMULA)


def column_types(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The type of each column: bool, int, float or str. A column of numbers that some rows lack is float."""
    types = {}
    for column in dict.fromkeys(column for row in rows for column in row):
        values = [row.get(column) for row in rows]
        kinds = {type(v) for v in values}
        if kinds == {bool}:
            types[column] = "bool"
        elif kinds == {int}:
            types[column] = "int"
        else:
            types[column] = "float" if all(v is None or isinstance(v, int | float) for v in values) else "str"
    return types


def from_csv(text: str, types: Mapping[str, str] | None = None) -> Rows:
    """Read a table.

    Args:
        text: The content of a CSV file.
        types: Column → bool, int, float or str. Unless given, a column that holds only numbers is float (NaN where it
            is empty), any other one text.

    Raises:
        DamagedError: if the text is not a table with these columns, or its rows differ in length.
    """
    try:
        found = list(csv.DictReader(io.StringIO(text), strict=True))
        if any(None in row or None in row.values() for row in found):
            raise ValueError("its rows differ in length")
        if types is None:
            types = {c: "float" if all(_is_number(row[c]) for row in found) else "str" for c in (found or [{}])[0]}
        return [{column: _READ[kind](row[column]) for column, kind in types.items()} for row in found]
    except KeyError as error:
        raise DamagedError(f"The column {error} is missing.") from error
    except (TypeError, ValueError, csv.Error) as error:
        raise DamagedError(f"The text cannot be parsed as a table: {error}.") from error


def _is_number(text: str) -> bool:
    try:
        return text == "" or float(text) is not None
    except ValueError:
        return False
