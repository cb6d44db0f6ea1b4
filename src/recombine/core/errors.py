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
    """Base class of the errors that recombine raises deliberately. `exit_code` is the status of the command line."""

    exit_code = 1


class Problem(NamedTuple):
    """One problem of an input.

    Attributes:
        key: The affected setting, such as "decoder.width"; empty if it concerns no particular setting.
        message: What was given, what was expected, what to do.
    """

    key: str
    message: str


class InputError(RecombineError, ValueError):
    """An invalid input. Nothing was written or changed.

    Args:
        message: What was given, what was expected, what to do.
        key: The affected setting, such as "decoder.width"; empty if it concerns no particular setting.

    Attributes:
        problems: All problems; more than one only if the error was created by `join`.
    """

    exit_code = 2

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.problems = [Problem(key, message)]

    @property
    def key(self) -> str:
        """The setting of the first problem."""
        return self.problems[0].key

    @classmethod
    def join(cls, problems: Iterable[Problem]) -> InputError:
        """One error for several problems, one line each."""
        found = list(problems)
        assert found, "an error needs a problem"
        error = cls("\n".join(problem.message for problem in found))
        error.problems = found
        return error


class StoreError(InputError):
    """A file or folder of a store is missing, damaged, foreign or not writable."""


class DamagedError(StoreError):
    """A file exists but was changed, is truncated or cannot be read."""


class LockHeld(StoreError):
    """Another live process is working on the same run."""


class LockLost(StoreError):
    """A lock was taken over, because its holder was suspended for so long that it counted as dead."""


class Missing(StrEnum):
    """Why something was not computed."""

    NOT_REQUESTED = "not_requested"  # not part of the request
    NO_TRUTH = "no_truth"  # needs targets, and there are none
    NO_HOLDOUT = "no_holdout"  # needs held-out cells, and there are none
    NOT_DIFFERENTIABLE = "not_differentiable"  # needs a derivative that does not exist
    NOT_APPLICABLE = "not_applicable"  # has no meaning for this task or model
    DEGENERATE = "degenerate"  # 0/0: nothing varies
    TOO_LARGE = "too_large"  # exceeds memory or a budget
    TOO_FEW_CELLS = "too_few_cells"
    NOT_INSTALLED = "not_installed"  # needs an optional dependency
    DAMAGED = "damaged"  # its file cannot be read
    FAILED = "failed"  # an error ended the computation


class NotComputable(RecombineError):
    """A quantity does not exist or cannot be computed here. Distinct from an invalid input and from a damaged file.

    Args:
        state: The kind of reason.
        reason: The explanation for people.
    """

    def __init__(self, state: Missing, reason: str) -> None:
        super().__init__(state, reason)  # all arguments, so that pickling works
        self.state = Missing(state)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class MissingPart(InputError):
    """A table or figure was requested of a diagnostic part that is missing.

    Args:
        part: Name of the part.
        state: Why it is missing.
        reason: The explanation for people.
    """

    def __init__(self, part: str, state: Missing, reason: str) -> None:
        super().__init__(f"The part {part!r} is missing: {reason}", part)
        self.args = (part, state, reason)  # all arguments, so that pickling works
        self.state, self.reason = state, reason

    def __str__(self) -> str:
        return self.problems[0].message


class DivergenceCause(StrEnum):
    """What made a loss NaN or infinite."""

    TARGETS = "targets"  # non-finite targets
    INPUTS = "inputs"  # non-finite inputs
    LOSS = "loss"  # neither: the steps themselves


class TrainingDiverged(RecombineError):
    """The loss of some seeds became NaN or infinite.

    Attributes:
        by_seed: Maps seeds to explanations.
        finished: The runs of the seeds that were trained together with these and did not diverge.
        causes: Maps seeds to causes.
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
