"""Functions that a package above provides to one below, which must not import it.

The package below calls a hook by its name; `recombine/__init__.py`, which knows all packages, says where it is.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

_PLACES: dict[str, str] = {}


def provide(name: str, place: str) -> None:
    """Say where a hook is, as "module:function". It is imported when it is first called."""
    _PLACES[name] = place


def hook(name: str) -> Callable[..., Any]:
    """The function that a package above provides under a name."""
    module, _, function = _PLACES[name].partition(":")
    return getattr(importlib.import_module(module), function)
