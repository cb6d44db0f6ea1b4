"""Cases: a command line, and the files it finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Special(NamedTuple):
    """What is no file with content: a "link" to a target, a "pipe", or a "folder"."""

    kind: str
    target: str = ""


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: What it is about; of a generated one, its kind and seed.
        words: The command line after `recombine`.
        files: Path → content, made beforehand in an empty folder, which is the working directory.
        codes: The exit codes that it may have.
    """

    name: str
    words: tuple[str, ...]
    files: dict[str, bytes | Special] = field(default_factory=dict)
    codes: tuple[int, ...] = (0, 1, 2)
