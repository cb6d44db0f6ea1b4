"""The generated case of a kind and a number: always the same, but for what a store holds of its machine and time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.fuzz.cases import Case
from tests.fuzz.commands import command_line
from tests.fuzz.documents import yaml_file
from tests.fuzz.folders import folder
from tests.fuzz.models import model_file
from tests.fuzz.others import other_line

KINDS = ("command", "yaml", "folder", "model", "command", "folder", "model", "yaml", "folder", "other")
GENERATORS: dict[str, Callable[[random.Random], tuple[list[str], dict[str, Any]]]] = {
    "command": command_line,
    "yaml": yaml_file,
    "model": model_file,
}
OF_A_STORE: dict[str, Callable[[dict[str, bytes], random.Random], tuple[list[str], dict[str, Any]]]] = {
    "folder": folder,
    "other": other_line,
}


def generated(kind: str, seed: int, stored: dict[str, bytes]) -> Case:
    """One case. A plan or a reading command either works or is told that its input is invalid."""
    draw = random.Random(f"{kind} {seed}")
    words, files = OF_A_STORE[kind](stored, draw) if kind in OF_A_STORE else GENERATORS[kind](draw)
    works = "--dry-run" in words or words[:2] in (["runs", "list"], ["runs", "show"], ["runs", "rm"])
    words = [word.replace("\0", "").encode(errors="surrogateescape").decode(errors="surrogateescape")
             if not any(0xD800 <= ord(sign) < 0xDC80 for sign in word) else "\ufffd" for word in words]  # fmt: skip
    return Case(f"{kind} {seed}", tuple(words), files, (0, 2) if works else (0, 1, 2))
