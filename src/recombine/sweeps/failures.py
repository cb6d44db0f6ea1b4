"""Why the runs of a sweep failed: a cause that programs can decide by, and an explanation for people."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from recombine.core.errors import InputError, NotComputable, RecombineError, StoreError, TrainingDiverged
from recombine.core.memory import ran_out_of_memory


class Cause(StrEnum):
    """Why a run failed."""

    DIVERGED = "diverged"  # the loss became NaN or infinite
    INVALID = "invalid"  # a setting cannot be used; `key` names it
    STORE = "store"  # a file is damaged, foreign or cannot be written
    NOT_COMPUTABLE = "not_computable"  # the diagnosis of this run does not exist
    OUT_OF_MEMORY = "out_of_memory"
    TIME_LIMIT = "time_limit"
    LOST = "lost"  # its worker ended, more often than the sweep retries
    UNEXPECTED = "unexpected"  # an error in code, with a traceback


class Reason(TypedDict):
    """Why a job failed, as plain data that workers send.

    Attributes:
        cause: A `Cause`.
        key: The affected setting, such as "decoder.width"; empty if there is none.
        error: The explanation.
        traceback: Empty unless the error was unexpected.
    """

    cause: str
    key: str
    error: str
    traceback: str


@dataclass(frozen=True)
class Failure:
    """A run that is not finished.

    Attributes:
        run: Its id.
        cause: Why it failed.
        key: The affected setting, such as "decoder.width"; empty if there is none.
        error: The explanation.
        log: The file that contains the traceback; None if it could not be written.
    """

    run: str
    cause: Cause
    key: str
    error: str
    log: str | None = None


def because(cause: Cause, error: str, traceback: str = "") -> Reason:
    """A reason that concerns no particular setting."""
    return {"cause": cause.value, "key": "", "error": error, "traceback": traceback}


def reason_of(error: BaseException) -> Reason:
    """The reason that an error which is being handled gives."""
    if ran_out_of_memory(error):
        return because(Cause.OUT_OF_MEMORY, repr(error), traceback.format_exc())
    if not isinstance(error, RecombineError):
        return because(Cause.UNEXPECTED, repr(error), traceback.format_exc())
    kinds = {
        TrainingDiverged: Cause.DIVERGED,
        StoreError: Cause.STORE,
        InputError: Cause.INVALID,
        NotComputable: Cause.NOT_COMPUTABLE,
    }
    cause = next((cause for kind, cause in kinds.items() if isinstance(error, kind)), Cause.UNEXPECTED)
    return {**because(cause, str(error)), "key": error.key if isinstance(error, InputError) else ""}
