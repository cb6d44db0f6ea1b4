"""A piece of a sweep's work: the driver's side of a job."""

from __future__ import annotations

import contextlib
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypedDict

from recombine.core import plugins
from recombine.core.errors import RecombineError
from recombine.core.lock import Lock
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.sweeps.engines.engine import Job

TRAIN, DIAGNOSE = "train", "diagnose"  # names of work


class Options(TypedDict):
    """What all jobs of a sweep are given.

    Attributes:
        store: The folder of runs, or None where jobs do not see it and return files instead.
        device: See `Store.train`.
        checkpoint_seconds: See `Store.train`.
        plugins: See `recombine.core.plugins.shipped`.
    """

    store: str | None
    device: str
    checkpoint_seconds: float
    plugins: list[dict[str, Any]]


class Answer(TypedDict):
    """What a job answers.

    Attributes:
        finished: Runs that are done now.
        found: Those of them that another process had done.
        failed: Run → error and traceback.
        busy: Runs that another process works on.
        interrupted: Whether it was asked to stop.
    """

    finished: list[str]
    found: list[str]
    failed: dict[str, list[str]]
    busy: list[str]
    interrupted: bool


class Work(ABC):
    """Some runs that one job works on, and what became of it so far.

    Args:
        configs: The runs.
    """

    name: ClassVar[str]  # TRAIN or DIAGNOSE; also in the journal

    def __init__(self, configs: Sequence[RunConfig]) -> None:
        self.configs = list(configs)
        self.losses = 0  # how often it was lost
        self.not_before = 0.0
        self.locks: list[Lock] = []

    @property
    def id(self) -> str:
        return f"{self.name} {self.configs[0].hash}"

    @property
    def title(self) -> str:
        config = self.configs[0]
        seeds = ",".join(str(config.seed) for config in self.configs)
        kinds = f"{config.decoder['kind']} {config.encoding['kind']} {config.holdout['kind']}"
        return f"{self.name} {config.hash} {kinds} seed {seeds}"

    @abstractmethod
    def of(self, configs: Sequence[RunConfig]) -> Work:
        """The same for some of its runs."""

    @abstractmethod
    def is_done(self, store: Store, config: RunConfig) -> bool: ...

    @abstractmethod
    def job(self, options: Options, store: Store) -> Job: ...

    @abstractmethod
    def keep(self, store: Store, config: RunConfig, files: Mapping[str, bytes], lock: Lock) -> None:
        """Write what a job returned as files."""


@contextlib.contextmanager
def as_worker(options: Options) -> Iterator[None]:
    """With the driver's plug-ins, and with one thread, so that results do not depend on where they are computed."""
    import torch

    plugins.receive(options["plugins"])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def explained(error: BaseException) -> list[str]:
    """The message of an error that is being handled, and its traceback unless it was raised on purpose."""
    return [str(error), ""] if isinstance(error, RecombineError) else [repr(error), traceback.format_exc()]
