"""What runs jobs somewhere. It knows no science: a job is a function's name and plain data, and so is the answer.

    engine.submit(job)              # while engine.capacity() allows
    for event in engine.poll(0.2):  # Answered, Raised or Lost
        …
    engine.cancel(job.id)           # for good: whatever runs it is ended
    engine.close()

Each engine adds itself to `ENGINES`: a name, and a function that starts it with `EngineOptions`.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from recombine.core.catalogue import Catalogue
from recombine.core.errors import InputError

LEAST_CPUS = 0.01  # that a job can ask for


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
        if not (LEAST_CPUS <= self.cpus < 1e6 and 0 <= self.gpus < 1e6 and 0 <= self.memory < 2**63):
            raise InputError(f"A run needs at least {LEAST_CPUS} CPUs and at least 0 GPUs and memory. Got {self}.")
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
        files: Content of files that it needs; the function finds them in `payload["files"]`.
    """

    id: str
    function: str
    payload: Mapping[str, Any]
    title: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)


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
class Engine(Protocol):
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


@dataclass(frozen=True)
class EngineOptions:
    """What an engine is started with.

    Attributes:
        workers: Most jobs at once; as many as fit if None.
        needs: What a job needs.
        logs: Folder for what workers print; nowhere if None.
        address: Where a cluster is.
        shared: Whether the cluster's machines see the store under the same path.
        time_limit: Seconds after which a job is ended, for an engine that has to do that itself.
    """

    workers: int | None = None
    needs: Needs = field(default_factory=Needs)
    logs: Path | None = None
    address: str | None = None
    shared: bool = False
    time_limit: float | None = None


ENGINES = Catalogue[Callable[[EngineOptions], Engine]]("engine", "recombine.sweeps.engines")


def call(function: str, payload: Mapping[str, Any]) -> Output:
    """Call a function by name. Names come from this library's code or from the one who calls it, never from files."""
    module, _, name = function.partition(":")
    target: Callable[[Mapping[str, Any]], Output] = getattr(importlib.import_module(module), name)
    return target(payload)


def attempt(job: Job) -> Event:
    """Do a job; what it raises becomes data."""
    try:
        payload = {**job.payload, "files": job.files} if job.files else job.payload
        return Answered(job.id, call(job.function, payload))
    except Exception as error:
        return Raised(job.id, f"{type(error).__name__}: {error}", traceback.format_exc())
