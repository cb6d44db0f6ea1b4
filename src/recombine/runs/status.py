"""The state of a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RunState(StrEnum):
    """The state of a run. Programs should use this value and not parse the text that describes it."""

    NOT_STARTED = "not started"
    STOPPED = "stopped"  # training can be resumed from a checkpoint
    FINISHED = "finished"
    DAMAGED = "damaged"  # files are missing, changed, foreign or unreadable


class Planned(StrEnum):
    """The action that a command would take for a run."""

    TRAIN = "to train"
    CONTINUE = "to train on"  # from its checkpoint
    AGAIN = "to train again"
    NOTHING = "finished"
    REFUSED = "damaged"  # finished but damaged; it is trained again only if requested


@dataclass(frozen=True)
class RunStatus:
    """The state of a run, with details.

    Attributes:
        state: The state.
        reason: Why the run is damaged; empty otherwise.
        step: Step of the checkpoint of a stopped run.
    """

    state: RunState
    reason: str = ""
    step: int | None = None

    @classmethod
    def of_step(cls, step: int | None) -> RunStatus:
        """Status of an unfinished run whose checkpoint is at a step; None if it has no checkpoint."""
        return cls(RunState.NOT_STARTED) if step is None else cls(RunState.STOPPED, step=step)

    @property
    def finished(self) -> bool:
        """Whether training is complete."""
        return self.state is RunState.FINISHED

    @property
    def damaged(self) -> bool:
        """Whether files of the run are damaged."""
        return self.state is RunState.DAMAGED

    def to_json(self) -> dict[str, str | int]:
        """`status`, with `reason` or `step` if there is one."""
        reason = {"reason": self.reason} if self.reason else {}
        step = {"step": self.step} if self.step is not None else {}
        return {"status": self.state.value, **reason, **step}

    def __str__(self) -> str:
        """For people."""
        if self.state is RunState.STOPPED:
            return f"stopped at step {self.step}"
        return f"{self.state}: {self.reason}" if self.reason else str(self.state)
