"""What runs jobs somewhere. It knows no science: a job is a function's name and plain data, and so is the answer.

executor.submit(job)              # while executor.capacity() allows
for event in executor.poll(0.2):  # Answered, Raised or Lost
    …
executor.cancel(job.id)           # for good: whatever runs it is ended
executor.close()
"""

from __future__ import annotations

import importlib
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from recombine.core.errors import InputError


@dataclass(frozen=True)
class Needs:
    """What one job needs while it runs.

    Attributes:
        cpus: Processor cores.
        gpus: Graphics cards; a fraction lets several jobs share one, more than 1 must be whole.
        memory: Bytes; 0 for no matter.
    """

    cpus: float | int = 1
    gpus: float | int = 0
    memory: int = 0

    def __post_init__(self) -> None:
        if not (0 < self.cpus < 1e6 and 0 <= self.gpus < 1e6 and self.memory >= 0):
            raise InputError(f"A run needs more than 0 CPUs and at least 0 GPUs and memory. Got {self}.")
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise InputError(f"A run needs a fraction of one GPU, or whole ones. Got {self.gpus}.")


@dataclass(frozen=True)
class Job:
    """A piece of work.

    Attributes:
        id: Its name; unique in a sweep.
        function: "module:name" of what does it: takes `payload`, returns an `Output`.
        payload: JSON data.
        title: For people.
    """

    id: str
    function: str
    payload: Mapping[str, Any]
    title: str = ""


@dataclass(frozen=True)
class Output:
    """What a function answers: JSON data and the content of files."""

    data: Any
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Answered:
    job: str
    output: Output


@dataclass(frozen=True)
class Raised:
    """The function raised."""

    job: str
    error: str
    traceback: str


@dataclass(frozen=True)
class Lost:
    """What ran the job died."""

    job: str
    reason: str


Event = Answered | Raised | Lost


@runtime_checkable
class Executor(Protocol):
    """See the head of this file."""

    shares_files: bool  # whether jobs see the driver's files
    same_process: bool  # whether jobs run in the driver's process, so that they get the signals meant for it

    def capacity(self) -> int:
        """How many jobs can run at once, as things are now."""
        ...

    def submit(self, job: Job) -> None: ...

    def poll(self, timeout: float) -> Sequence[Event]:
        """What happened since the last call; waits for something up to `timeout` seconds."""
        ...

    def seconds(self, job: str) -> float:
        """For how long a job has been running."""
        ...

    def cancel(self, job: str) -> None:
        """End a running job. No event tells of it."""
        ...

    def interrupt(self) -> None:
        """Ask all jobs to save what they have and to end."""
        ...

    def close(self) -> None:
        """End everything at once."""
        ...


def call(function: str, payload: Mapping[str, Any]) -> Output:
    """Call a function by name. Names come from this library's code or from the one who calls it, never from files."""
    module, _, name = function.partition(":")
    target: Callable[[Mapping[str, Any]], Output] = getattr(importlib.import_module(module), name)
    return target(payload)


def attempt(job: str, function: str, payload: Mapping[str, Any]) -> Event:
    """Call a function; what it raises becomes data."""
    try:
        return Answered(job, call(function, payload))
    except Exception as error:
        return Raised(job, f"{type(error).__name__}: {error}", traceback.format_exc())


def encode(event: Event) -> bytes:
    """An event as bytes without any code in them: a line of JSON, then the content of the files."""
    head: dict[str, Any] = {"event": type(event).__name__, "job": event.job}
    body: list[bytes] = []
    if isinstance(event, Answered):
        head["data"] = event.output.data
        head["files"] = {name: len(content) for name, content in event.output.files.items()}
        body = list(event.output.files.values())
    elif isinstance(event, Raised):
        head |= {"error": event.error, "traceback": event.traceback}
    else:
        head["reason"] = event.reason
    return b"\n".join([json.dumps(head).encode(), b"".join(body)])


def decode(message: bytes) -> Event:
    line, _, body = message.partition(b"\n")
    head = json.loads(line)
    if head["event"] == "Raised":
        return Raised(head["job"], head["error"], head["traceback"])
    if head["event"] == "Lost":
        return Lost(head["job"], head["reason"])
    files, start = {}, 0
    for name, size in head["files"].items():
        files[name] = body[start : start + size]
        start += size
    return Answered(head["job"], Output(head["data"], files))
