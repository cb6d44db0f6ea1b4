"""Values as people write them on the command line."""

import pytest

from recombine.core.errors import InputError
from recombine.core.words import plain_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ("bump", "bump"),
        ("a: b", "a: b"),
        ('["a", 1]', ["a", 1]),
        ("[red, green]", ["red", "green"]),
        ("[0.5, .7, 1]", [0.5, ".7", 1]),
        ("[{colour: red, shape: square}]", [{"colour": "red", "shape": "square"}]),
        ("[{colour:red,x:3}, {x: {min: 3, max: 5.5}}]", [{"colour": "red", "x": 3}, {"x": {"min": 3, "max": 5.5}}]),
        ('{"sea, green": [dark blue, "a:b"]}', {"sea, green": ["dark blue", "a:b"]}),
        ("[]", []),
        ("{}", {}),
        ("[ [a] , [] ]", [["a"], []]),
    ],
)
def test_lists_and_mappings_need_no_quotes(text, value):
    assert plain_value(text) == value


@pytest.mark.parametrize(
    "text", ["[a", "[a]]", "{a}", "{a: 1, a: 2}", "[a,,b]", "[,]", '["a]', "[a[b]]", "{: 1}", "[a] b"]
)
def test_what_is_neither_is_a_plain_word(text):
    assert plain_value(text) == text


@pytest.mark.parametrize("text", ["[" * 10**5, "[a," * 10**5])
def test_what_is_nested_too_deeply_is_refused(text):
    with pytest.raises(InputError, match="nested"):
        plain_value(text)
