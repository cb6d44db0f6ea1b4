"""CSV tables: every value comes back, what is missing is empty, nothing becomes a formula."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recombine.core.errors import DamagedError
from recombine.core.tables import column_types, from_csv, to_csv

ROWS = [
    {"layer": "in", "cells": 3, "mse": 1 / 3, "held": True, "note": None},
    {"layer": "=1+1", "cells": -4, "mse": None, "held": False, "note": "a, b"},
]


def test_values_come_back_with_their_types():
    types = column_types(ROWS)
    assert types == {"layer": "str", "cells": "int", "mse": "float", "held": "bool", "note": "str"}
    again = from_csv(to_csv(ROWS), types)
    assert again[0] == {**ROWS[0], "note": ""}
    assert math.isnan(again[1].pop("mse"))
    assert again[1] == {"layer": "=1+1", "cells": -4, "held": False, "note": "a, b"}


def test_without_types_columns_of_numbers_are_numbers():
    first, second = from_csv(to_csv(ROWS))
    assert first == {"layer": "in", "cells": 3.0, "mse": 1 / 3, "held": "True", "note": ""}
    assert second["cells"] == -4.0
    assert math.isnan(second["mse"])


@given(st.lists(st.tuples(st.text("'=+-@x ,\"\n", max_size=4), st.floats(allow_nan=False)), min_size=1, max_size=4))
def test_any_text_and_number_comes_back(values):
    rows = [{"text": text, "number": number} for text, number in values]
    assert from_csv(to_csv(rows), {"text": "str", "number": "float"}) == rows


@pytest.mark.parametrize("text", ["=1", "+1", "-x", "@x"])
def test_no_text_is_a_formula(text):
    assert to_csv([{"a": text}]).splitlines()[1][0] == "'"


def test_columns_can_be_chosen_and_lacking_ones_are_empty():
    assert to_csv([{"a": 1}, {"b": [1, 2]}], ["b", "a"]) == 'b,a\n,1\n"[1, 2]",\n'
    assert to_csv([], ["a"]) == "a\n"
    assert from_csv(to_csv([])) == []


@pytest.mark.parametrize(
    ("text", "types"),
    [("a\n1\n", {"b": "int"}), ("a\nx\n", {"a": "float"}), ("a,b\n1\n", None), ("a\n1,2\n", None), ('a\n"x', None)],
)
def test_what_is_no_such_table_is_damaged(text, types):
    with pytest.raises(DamagedError):
        from_csv(text, types)
