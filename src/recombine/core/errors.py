"""Errors that users may encounter. Each says what was given, what was expected and what to do next.

Programs decide by type, `key` and `state`, never by the text:

    try:
        RunConfig.parse(["decoder.width=0", "decoder.dpeth=4"])
    except InputError as error:
        [problem.key for problem in error.problems]      # ["decoder.width", "decoder.dpeth"]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple


class RecombineError(Exception):
    """Base of all errors that recombine raises on purpose. `exit_code` is the exit status of the command line."""

    exit_code = 1


class Problem(NamedTuple):
    """One thing that is wrong with an input.

    Attributes:
        key: The setting it is about, such as "decoder.width"; empty if it is about none in particular.
        message: What was given, what was expected, what to do.
    """

    key: str
    message: str


class InputError(RecombineError, ValueError):
    """An invalid input. Nothing was written or changed.

    Args:
        message: What was given, what was expected, what to do.
        key: The setting it is about, such as "decoder.width"; empty if it is about none in particular.

    Attributes:
        problems: Everything that is wrong; one problem unless the error was made by `join`.
    """

    exit_code = 2

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.problems = [Problem(key, message)]

    @property
    def key(self) -> str:
        """The setting that the first problem is about."""
        return self.problems[0].key

    @classmethod
    def join(cls, problems: Iterable[Problem]) -> InputError:
        """One error for several problems, a line each."""
        found = list(problems)
        assert found, "an error needs a problem"
        error = cls("\n".join(problem.message for problem in found))
        error.problems = found
        return error


class StoreError(InputError):
    """A file or folder of a store is missing, damaged, foreign or not writable."""


class DamagedError(StoreError):
    """A file is there but was changed, is truncated or cannot be read."""


class LockHeld(StoreError):
    """Another living process works on the same run."""


class LockLost(StoreError):
    """A lock was taken over, because its holder was asleep for so long that it counted as dead."""


class Missing(StrEnum):
    """Why something was not computed."""

    NOT_REQUESTED = "not_requested"  # nobody asked for it
    NO_TRUTH = "no_truth"  # needs targets, and there are none
    NO_HOLDOUT = "no_holdout"  # needs held-out cells, and there are none
    NOT_DIFFERENTIABLE = "not_differentiable"  # needs a derivative that does not exist
    NOT_APPLICABLE = "not_applicable"  # has no meaning for this task or model
    DEGENERATE = "degenerate"  # 0/0: nothing varies
    TOO_LARGE = "too_large"  # exceeds memory or a budget
    TOO_FEW_CELLS = "too_few_cells"
    NOT_INSTALLED = "not_installed"  # needs an optional dependency
    DAMAGED = "damaged"  # its file cannot be read


class NotComputable(RecombineError):
    """A quantity does not exist or cannot be computed here. Distinct from an invalid input and from a damaged file.

    Args:
        state: Which sort of reason.
        reason: The explanation for people.
    """

    def __init__(self, state: Missing, reason: str) -> None:
        super().__init__(state, reason)  # all arguments, so that pickling works
        self.state = Missing(state)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class DivergenceCause(StrEnum):
    """What made a loss NaN or infinite."""

    TARGETS = "targets"  # targets that are not finite
    INPUTS = "inputs"  # inputs that are not finite
    LOSS = "loss"  # neither: the steps themselves


class TrainingDiverged(RecombineError):
    """The loss of some seeds became NaN or infinite.

    Attributes:
        by_seed: Seed → explanation.
        finished: The runs of the seeds that were trained together with these and did not diverge.
        causes: Seed → cause.
    """

    def __init__(
        self,
        by_seed: Mapping[int, str],
        finished: Sequence[Any] = (),
        causes: Mapping[int, DivergenceCause] | None = None,
    ) -> None:
        super().__init__(dict(by_seed), list(finished), dict(causes or {}))
        self.by_seed = dict(by_seed)
        self.finished = list(finished)
        self.causes = dict(causes or {})

    def __str__(self) -> str:
        return "\n".join(self.by_seed.values())


class TrainingInterrupted(RecombineError):
    """Training was interrupted by Ctrl-C. Its state was saved; the same command continues from there."""

    exit_code = 130
