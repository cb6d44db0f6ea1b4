"""Parsing values from the command line: JSON, or JSON with fewer quotes.

```python
plain_value("0.5"), plain_value("true"), plain_value("bump")           # 0.5, True, "bump"
plain_value("[{colour: red, shape: square}]")                          # [{"colour": "red", "shape": "square"}]
```
"""

from __future__ import annotations

import json
from typing import Any

from recombine.core.errors import InputError
from recombine.core.registry import TOO_DEEP

ENDS = ",:]}"


def plain_value(text: str) -> Any:
    """JSON where it is JSON (numbers, true, null, lists); lists and mappings of plain words; a plain word otherwise."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    except RecursionError:
        raise InputError(f"{text[:20]}…: {TOO_DEEP}") from None
    if text.strip()[:1] in ("[", "{"):
        try:
            return _Words(text).whole()
        except ValueError:
            return text
        except RecursionError:
            raise InputError(f"{text[:20]}…: {TOO_DEEP}") from None
    return text


class _Words:
    """Reads lists and mappings whose texts need no quotes; raises ValueError for anything else."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def whole(self) -> Any:
        value = self._value()
        if self._next():
            raise ValueError(f"unexpected text at {self.at}")
        return value

    def _next(self) -> str:
        """The next character that is not a space; empty at the end."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _take(self, sign: str) -> None:
        if self._next() != sign:
            raise ValueError(f"{sign} is missing at {self.at}")
        self.at += 1

    def _value(self) -> Any:
        sign = self._next()
        if sign == "[":
            return self._several("]", self._value)
        if sign == "{":
            pairs = self._several("}", self._pair)
            if len(dict(pairs)) != len(pairs):
                raise ValueError("a key is given twice")
            return dict(pairs)
        word = self._word()
        try:
            return json.loads(word)
        except ValueError:
            return word

    def _several(self, end: str, one: Any) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        while self._next() != end:
            if found:
                self._take(",")
            found.append(one())
        self._take(end)
        return found

    def _pair(self) -> tuple[str, Any]:
        word = self._word()
        key = json.loads(word) if word[0] == '"' else word
        self._take(":")
        return key, self._value()

    def _word(self) -> str:
        """The next word: quoted, or everything up to a comma, colon or closing bracket."""
        quoted, start = self._next() == '"', self.at
        if quoted:
            self.at = json.JSONDecoder().raw_decode(self.text, self.at)[1]
            return self.text[start : self.at]
        while self.at < len(self.text) and self.text[self.at] not in ENDS:
            self.at += 1
        word = self.text[start : self.at].strip()
        if not word or any(sign in word for sign in '[{"'):
            raise ValueError(f"a word is missing at {start}")
        return word
