"""The interface of engines, which run jobs. A job is the name of a function with JSON data, so engines are
independent of what the jobs compute.

    engine.submit(job)              # while engine.capacity() allows
    for event in engine.poll(0.2):  # Answered, Raised or Lost
        …
    engine.cancel(job.id)           # permanently: the process that runs it is stopped
    engine.close()

Each engine registers itself in `ENGINES`: a name, and a function that starts it with `EngineOptions`.
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

LEAST_CPUS, MOST_CPUS = 0.01, 100_000  # limits of what a job can request


@dataclass(frozen=True)
class Needs:
    """The resources that one job needs while it runs.

    Attributes:
        cpus: CPU cores.
        gpus: GPUs. A fraction lets several jobs share one; numbers above 1 must be whole.
        memory: Bytes; 0 for no requirement.
    """

    cpus: float | int = 1
    gpus: float | int = 0
    memory: int = 0

    def __post_init__(self) -> None:
        if not (LEAST_CPUS <= self.cpus <= MOST_CPUS and 0 <= self.gpus <= MOST_CPUS and 0 <= self.memory < 2**63):
            raise InputError(
                f"A job needs from {LEAST_CPUS} to {MOST_CPUS} CPUs, no more GPUs than that, and less than 8 EB of "
                f"memory. Got {self}."
            )
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise InputError(f"The number of GPUs per job must be an integer or a fraction below 1. Got {self.gpus}.")


@dataclass(frozen=True)
class Job:
    """A unit of work.

    Attributes:
        id: Unique name within a sweep.
        function: "module:name" of the function that does the work. It takes `payload` and returns an `Output`.
        payload: JSON data.
        title: Human-readable description.
        files: Content of the files that the job needs; the function finds them in `payload["files"]`.
    """

    id: str
    function: str
    payload: Mapping[str, Any]
    title: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """The return value of a job's function: JSON data and the content of files."""

    data: Any
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Answered:
    """The function returned."""

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
    """The process or machine that ran the job died."""

    job: str
    reason: str


@dataclass(frozen=True)
class Overdue:
    """The engine stopped the job because it exceeded its time limit."""

    job: str


Event = Answered | Raised | Lost | Overdue


@runtime_checkable
class Engine(Protocol):
    """The interface of an engine. See the module docstring."""

    shares_files: bool  # whether jobs can access the driver's files
    same_process: bool  # whether jobs run in the driver's process and receive its signals

    def capacity(self) -> int:
        """Number of jobs that can currently run at a time."""
        ...

    def submit(self, job: Job) -> None:
        """Start a job. Call it only if `capacity` allows another job."""
        ...

    def poll(self, timeout: float) -> Sequence[Event]:
        """Events since the last call. Waits up to `timeout` seconds for one."""
        ...

    def seconds(self, job: str) -> float:
        """Seconds that a job has been running."""
        ...

    def cancel(self, job: str) -> None:
        """Stop a running job. No event is reported for it."""
        ...

    def interrupt(self) -> None:
        """Ask all jobs to save their state and stop."""
        ...

    def close(self) -> None:
        """Stop everything immediately."""
        ...


@dataclass(frozen=True)
class EngineOptions:
    """The options that an engine is started with.

    Attributes:
        workers: Maximum number of jobs at a time; None for as many as fit.
        needs: Resources of one job.
        logs: Folder for the output of workers; None to discard it.
        address: Address of a cluster.
        shared: Whether the machines of the cluster see the store under the same path.
        time_limit: Seconds after which a job is stopped, for engines that must enforce the limit themselves.
    """

    workers: int | None = None
    needs: Needs = field(default_factory=Needs)
    logs: Path | None = None
    address: str | None = None
    shared: bool = False
    time_limit: float | None = None


@dataclass(frozen=True)
class Cluster:
    """Starts an engine that runs jobs on other machines. Engines of this machine register a plain function instead.

    A cluster engine takes an address and a shared folder. Planning a sweep does not contact the cluster.
    """

    start: Callable[[EngineOptions], Engine]

    def __call__(self, options: EngineOptions) -> Engine:
        return self.start(options)


ENGINES = Catalogue[Callable[[EngineOptions], Engine]]("engine", "recombine.sweeps.engines")


def call(function: str, payload: Mapping[str, Any]) -> Output:
    """Call a function by name. Names come from this library or from its caller, never from files."""
    module, _, name = function.partition(":")
    target: Callable[[Mapping[str, Any]], Output] = getattr(importlib.import_module(module), name)
    return target(payload)


def attempt(job: Job) -> Event:
    """Run a job and turn its exceptions into data."""
    try:
        payload = {**job.payload, "files": job.files} if job.files else job.payload
        return Answered(job.id, call(job.function, payload))
    except Exception as error:
        return Raised(job.id, f"{type(error).__name__}: {error}", traceback.format_exc())
