"""Errors a user can meet. Each says what was given, what was expected and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class RecombineError(Exception):
    """Anything recombine raises on purpose. `exit_code` is what the command line ends with."""

    exit_code = 1


class InputError(RecombineError, ValueError):
    """The user's mistake: nothing was written or changed."""

    exit_code = 2


class StoreError(InputError):
    """A run directory or file is missing, damaged, foreign or cannot be written."""


class LockHeld(StoreError):
    """Another living process works on the same run."""


class TrainingDiverged(RecombineError):
    """The loss of some seeds became NaN or infinite.

    `by_seed` says of each of them why; `finished` has the runs of the other seeds trained with them.
    """

    def __init__(self, by_seed: Mapping[int, str], finished: Sequence[Any] = ()) -> None:
        super().__init__("\n".join(by_seed.values()))
        self.by_seed = dict(by_seed)
        self.finished = list(finished)


class TrainingInterrupted(RecombineError):
    """Ctrl-C: the state was saved; running the same thing again goes on from there."""

    exit_code = 130
