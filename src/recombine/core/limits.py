"""Limits that are checked before anything is built: the machine's memory, sizes of networks, YAML files."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path
from typing import Any

from recombine.core.errors import InputError

MOST_UNITS = 10**6  # of a size of a network or an encoding
MOST_LAYERS = 1000
LOOPS = ("depth", "rank", "terms")  # settings that count modules, built one after the other
BYTES_PER_CELL = 64  # masks, scores and their tables
YAML_BYTES, YAML_NODES = 10**6, 100_000
YAML_TEXT = 3000  # characters of one value; numbers such as 1:59:59 take time that grows with their square


def machine_memory() -> int | None:
    """Bytes of memory that this machine, or the control group of this process, has; None where it is not known."""
    found: list[int] = []
    with contextlib.suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(ValueError, OSError):  # "max", or no control groups
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(found, default=None)


def check_memory(needed: int, what: str, key: str = "") -> None:
    """Raise an InputError with the estimate if something would need more bytes than the machine has."""
    has = machine_memory()
    if has is not None and needed > has:
        raise InputError(
            f"{what} would need {in_words(needed)}, but this machine has {in_words(has)}. Choose smaller sizes.", key
        )


def in_words(size: int) -> str:
    """A number of bytes as people write it: 48 GB."""
    if size < 10**3:
        return f"{size} bytes"
    unit = min(int(math.log10(size)) // 3, 6)
    return f"{size / 10 ** (3 * unit):.3g} {('kB', 'MB', 'GB', 'TB', 'PB', 'EB')[unit - 1]}"


def check_sizes(settings: dict[str, Any], group: str) -> None:
    """Refuse integers beyond what any network has, before a loop or an allocation of that size begins."""
    for name, value in settings.items():
        most = MOST_LAYERS if name in LOOPS else MOST_UNITS
        if isinstance(value, int) and value > most:
            raise InputError(f"'{group}.{name}' must be at most {most}. Got {value}.", f"{group}.{name}")
        if isinstance(value, dict):
            check_sizes(value, f"{group}.{name}")


def check_yaml_nodes(root: Any, what: str) -> None:
    """Raise if a composed YAML document has more than 100 000 nodes once aliases and merge keys are expanded.

    Every alias counts as often as it is used. A node that contains itself would never end. A single value must not be
    longer than `YAML_TEXT`.
    """
    counts: dict[int, float] = {}
    stack = [(root, False)]
    while stack:
        node, ready = stack.pop()
        parts = _children(node)
        if isinstance(node.value, str) and len(node.value) > YAML_TEXT:
            place = f"{what}, line {node.start_mark.line + 1}"
            raise InputError(f"{place}: a value has {len(node.value)} characters; at most {YAML_TEXT} are read.")
        if ready:
            counts[id(node)] = 1 + sum(counts[id(part)] for part in parts)
        elif id(node) not in counts:
            counts[id(node)] = math.inf  # until its parts are counted: what contains itself stays infinite
            stack.append((node, True))
            stack.extend((part, False) for part in parts)
    if counts[id(root)] > YAML_NODES:
        found = "a value that contains itself" if math.isinf(counts[id(root)]) else f"{counts[id(root)]:.3g} values"
        raise InputError(f"{what} has {found} after its aliases are resolved. The maximum is {YAML_NODES}.")


def _children(node: Any) -> list[Any]:
    if not isinstance(node.value, list):
        return []
    return [part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,))]
