"""Parses several values in one command-line word, such as 2,3,4, 0..7 or bump,ramp."""

from __future__ import annotations

import re

from recombine.core.errors import InputError

MOST_IN_RANGE = 10_000


def split_values(text: str) -> list[str]:
    """Split a text at commas outside brackets and quotes, and expand ranges."""
    found: list[str] = []
    for part in _split(text):
        if not re.fullmatch(r"[^\"\[{]*\.\.[^\"\[{]*", part):
            found.append(part)
            continue
        first, _, last = part.partition("..")
        if not (re.fullmatch(r"[0-9]{1,18}\.\.[0-9]{1,18}", part) and 0 <= int(last) - int(first) < MOST_IN_RANGE):
            raise InputError(
                "A range is written first..last with integers, for example 0..7, and has at most "
                f"{MOST_IN_RANGE} values. Got {part!r}."
            )
        found += [str(number) for number in range(int(first), int(last) + 1)]
    return found


def _split(text: str) -> list[str]:
    parts, depth, quoted, escaped = [""], 0, False, False
    for sign in text:
        if sign == "," and depth == 0 and not quoted:
            parts.append("")
            continue
        if quoted:
            quoted = escaped or sign != '"'
            escaped = sign == "\\" and not escaped
        else:
            quoted = sign == '"'
            depth += (sign in "[{") - (sign in "]}")
        parts[-1] += sign
    return [part.strip() for part in parts]
