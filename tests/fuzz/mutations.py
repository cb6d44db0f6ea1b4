"""Mutations: a valid value, document or file with something changed deep inside."""

from __future__ import annotations

import json
import random
from typing import Any

ODD_WORDS = [
    "",
    " ",
    "null",
    "true",
    "[]",
    "{}",
    "[1, 2",
    "{x: }",
    "*",
    "../..",
    "\x1b[31m",
    "𝒳",
    "a\nb",
    "²",
    "nan",
    "0x10",
]
ODD_NUMBERS: list[Any] = [0, -1, 1, 2, 3, 7, 0.5, 1.5, -0.0, 1e30, -1e30, 1e-30, 10**6, 10**10, 10**30, float("inf")]
ODD_JSON: list[Any] = [
    None, True, -1, 0, 1e308, [], {}, "", "x" * 100, [[]], {"a": {"b": None}}, "\x1b[2J", 10**30, "../../etc", "\ud800",
]  # fmt: skip


def near(value: Any, draw: random.Random) -> Any:
    """A value of the same sort that is a little different: most of them are valid too."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        usual, edges = [value + 1, value + 2, value * 2, max(value - 1, 1)], [-value, 0, value * 100, float(value)]
        return draw.choice(usual * 3 + edges)
    if isinstance(value, float):
        return draw.choice([value * 2, value / 3, 1.0, value * 1.5, value * 2, -value, 0.0, value * 1e6, value * 1e-6])
    if isinstance(value, str):
        return draw.choice([value[:-1], value + "x", value.upper(), value * 2, value, value, "mlp", "x", "random"])
    if isinstance(value, list):
        return draw.choice([value[:-1], value * 2, value[::-1], [*value, *value[:1]]])
    return draw.choice([None, 1, 0.5, "mlp"])


def odd(draw: random.Random) -> Any:
    """A value of any sort."""
    return draw.choice(draw.choice([ODD_WORDS, ODD_NUMBERS, ODD_JSON]))


def changed(document: Any, draw: random.Random, times: int = 1) -> Any:
    """The same document with a few values, anywhere in it, changed, taken out, doubled or replaced."""
    document = json.loads(json.dumps(document))
    for _ in range(times):
        inner = [at for at in _inside(document) if at]
        if not inner:
            return odd(draw)
        at = draw.choice(inner)
        key = draw.choice(list(at) if isinstance(at, dict) else range(len(at)))
        how = draw.random()
        if how < 0.65:
            at[key] = near(at[key], draw)
        elif how < 0.8:
            at[key] = odd(draw)
        elif how < 0.88:
            del at[key]
        elif isinstance(at, dict):
            at[draw.choice([*at, "kind", "x", ""])] = at[key]
        else:
            at.insert(draw.randrange(len(at)), at[key])
    return document


def _inside(document: Any) -> list[Any]:
    """Every mapping and list of a document, itself included."""
    if not isinstance(document, dict | list):
        return []
    parts = document.values() if isinstance(document, dict) else document
    return [document, *(inner for part in parts for inner in _inside(part))]


def changed_bytes(content: bytes, draw: random.Random) -> bytes:
    """A few bytes changed, taken out or doubled; now and then the end is missing."""
    found = bytearray(content)
    for _ in range(draw.randint(1, 3)):
        if not found:
            break
        at, how = draw.randrange(len(found)), draw.random()
        if how < 0.5:
            found[at] = draw.choice([draw.randrange(256), ord(draw.choice("0123456789-.,:{}[]\"'\n e"))])
        elif how < 0.75:
            del found[at : at + draw.randint(1, 4)]
        else:
            found[at:at] = found[at : at + draw.randint(1, 8)]
    return bytes(found[: draw.choice([len(found)] * 7 + [draw.randint(0, len(found))])])
