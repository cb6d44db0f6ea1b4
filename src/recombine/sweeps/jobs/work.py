"""Work of a sweep: the runs of a job together with the state that the driver keeps about them."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypedDict

from recombine.core import plugins
from recombine.core.lock import Lock
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.sweeps.engines.engine import Job
from recombine.sweeps.failures import Reason

TRAIN, DIAGNOSE = "train", "diagnose"  # names of work


class Options(TypedDict):
    """The options of all jobs of a sweep.

    Attributes:
        store: The folder of runs; None if jobs do not see it and return files instead.
        device: See `Store.train`.
        checkpoint_seconds: See `Store.train`.
        plugins: See `recombine.core.plugins.shipped`.
    """

    store: str | None
    device: str
    checkpoint_seconds: float
    plugins: list[dict[str, Any]]


class Answer(TypedDict):
    """The answer of a job.

    Attributes:
        finished: Runs that are finished now.
        found: The finished runs that another process had trained.
        failed: Maps each failed run to the reason.
        busy: Runs that another process is working on.
        interrupted: Whether the job was asked to stop.
    """

    finished: list[str]
    found: list[str]
    failed: dict[str, Reason]
    busy: list[str]
    interrupted: bool


class Work(ABC):
    """Runs that one job works on, with the state of the work.

    Args:
        configs: The runs.
    """

    name: ClassVar[str]  # TRAIN or DIAGNOSE; also in the journal

    def __init__(self, configs: Sequence[RunConfig]) -> None:
        self.configs = list(configs)
        self.losses = 0  # how many times its worker was lost
        self.not_before = 0.0
        self.locks: list[Lock] = []

    @property
    def id(self) -> str:
        """Name of the job, unique within a sweep."""
        return f"{self.name} {self.configs[0].hash}"

    @property
    def title(self) -> str:
        """Human-readable description of the work."""
        config = self.configs[0]
        seeds = ",".join(str(config.seed) for config in self.configs)
        kinds = f"{config.decoder['kind']} {config.encoding['kind']} {config.holdout['kind']}"
        return f"{self.name} {config.hash} {kinds} seed {seeds}"

    @abstractmethod
    def of(self, configs: Sequence[RunConfig]) -> Work:
        """The same work for a subset of its runs."""

    @abstractmethod
    def is_done(self, store: Store, config: RunConfig) -> bool:
        """Whether the store has the result for a run."""

    @abstractmethod
    def job(self, options: Options, store: Store) -> Job:
        """The job that an engine runs."""

    @abstractmethod
    def keep(self, store: Store, config: RunConfig, files: Mapping[str, bytes], lock: Lock) -> None:
        """Store the files that a job returned."""


@contextlib.contextmanager
def as_worker(options: Options) -> Iterator[None]:
    """Use the driver's plug-ins and one thread, so that results do not depend on where they are computed."""
    import torch

    plugins.receive(options["plugins"])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
