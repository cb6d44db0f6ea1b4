"""What there is of a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RunState(StrEnum):
    """How far a run is. Programs decide by this, never by the text beside it."""

    NOT_STARTED = "not started"
    STOPPED = "stopped"  # there is a checkpoint to go on from
    FINISHED = "finished"
    DAMAGED = "damaged"  # something of it is missing, changed, foreign or cannot be read


class Planned(StrEnum):
    """What a command would do with a run."""

    TRAIN = "to train"
    CONTINUE = "to train on"  # from its checkpoint
    AGAIN = "to train again"
    NOTHING = "finished"
    REFUSED = "damaged"  # it is finished but damaged, and only trained again if that is asked for


@dataclass(frozen=True)
class RunStatus:
    """The state of a run and what is known about it.

    Attributes:
        state: How far it is.
        reason: Why it is damaged; empty otherwise.
        step: Where its checkpoint stands, if it is stopped.
    """

    state: RunState
    reason: str = ""
    step: int | None = None

    @classmethod
    def of_step(cls, step: int | None) -> RunStatus:
        """Of an unfinished run whose checkpoint stands at a step; None if it has none."""
        return cls(RunState.NOT_STARTED) if step is None else cls(RunState.STOPPED, step=step)

    @property
    def finished(self) -> bool:
        """Whether the run has been trained to its end."""
        return self.state is RunState.FINISHED

    @property
    def damaged(self) -> bool:
        """Whether files of the run are damaged."""
        return self.state is RunState.DAMAGED

    def to_json(self) -> dict[str, str | int]:
        """`status`, with `reason` or `step` where there is one."""
        reason = {"reason": self.reason} if self.reason else {}
        step = {"step": self.step} if self.step is not None else {}
        return {"status": self.state.value, **reason, **step}

    def __str__(self) -> str:
        """For people."""
        if self.state is RunState.STOPPED:
            return f"stopped at step {self.step}"
        return f"{self.state}: {self.reason}" if self.reason else str(self.state)
