"""The loop of a sweep: hands batches to an executor, keeps what comes back, tries again what was lost."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recombine.core.errors import InputError, LockHeld, StoreError, TrainingInterrupted
from recombine.core.interrupt import Interrupt, interruptible
from recombine.core.lock import Lock
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.sweeps.engines.engine import Answered, Event, Executor, Lost, Raised
from recombine.sweeps.jobs import job, job_id
from recombine.sweeps.journal import Journal
from recombine.sweeps.progress import SweepProgress

TICK = 0.2
WAIT_FOR_OTHERS = 2.0  # seconds until a run that another process works on is looked at again
PATIENCE = 20.0  # seconds without any worker, as on a cluster that is full, until that is told
STOPPING = 30.0  # seconds that jobs get to save their state


@dataclass(frozen=True)
class Failure:
    """Why a run is not finished."""

    run: str
    error: str
    log: str | None = None  # file with the traceback


@dataclass
class SweepResult:
    """How a sweep ended.

    Attributes:
        finished: Runs that are in the store now, in the order asked for, whoever trained them.
        failed: The others.
        trained: Those of the finished ones that this call trained.
        seconds: How long it took.
    """

    finished: list[str] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    trained: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class _Batch:
    """Some configurations that train together, and what became of them so far."""

    configs: list[RunConfig]
    losses: int = 0
    not_before: float = 0.0
    locks: list[Lock] = field(default_factory=list)

    @property
    def id(self) -> str:
        return job_id(self.configs)


class Driver:
    """Runs batches to their end.

    Args:
        store: Where runs are and go.
        executor: What runs them.
        options: `device` and `checkpoint_seconds` of `Store.train`.
        retries: How often a batch whose worker died is tried again.
        time_limit: Seconds after which a batch is ended and counts as failed.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        journal: Journal,
        progress: SweepProgress,
        *,
        options: Mapping[str, Any],
        retries: int,
        time_limit: float | None,
    ) -> None:
        self.store, self.executor, self.journal, self.progress = store, executor, journal, progress
        shared = str(store.root.absolute()) if executor.shares_files else None
        self.options = {**options, "store": shared}
        self.retries, self.time_limit = retries, time_limit
        self.waiting: list[_Batch] = []
        self.running: dict[str, _Batch] = {}
        self.result = SweepResult()
        self.idle_since = time.monotonic()

    def run(self, batches: Sequence[Sequence[RunConfig]]) -> SweepResult:
        """Until every run is finished or has failed."""
        started = time.monotonic()
        order = [config for batch in batches for config in batch]
        self.waiting = [_Batch(list(batch)) for batch in batches]
        try:
            with interruptible() as interrupt, self.progress:
                while self.waiting or self.running:
                    if interrupt.requested:
                        self._stop()
                    self._fill()
                    for event in self.executor.poll(TICK if self.running else min(TICK, self._pause())):
                        self._handle(event, interrupt)
                    self._end_overdue()
                    self.progress.show([job(batch.configs, {}).title for batch in self.running.values()])
        finally:
            self.executor.close()
            for batch in self.running.values():
                self._unlock(batch)
            self.result.seconds = time.monotonic() - started
        self.result.finished = [c.hash for c in order if self.store.is_finished(c)]
        return self.result

    def _pause(self) -> float:
        """Nothing runs: until when nothing can be started."""
        pause = max(0.0, min((b.not_before for b in self.waiting), default=0.0) - time.monotonic())
        time.sleep(min(TICK, pause))
        return 0.0

    def _fill(self) -> None:
        """Start what can be started."""
        now = time.monotonic()
        self.idle_since = now if self.running else self.idle_since
        for batch in [b for b in self.waiting if b.not_before <= now]:
            if len(self.running) >= self.executor.capacity():
                if not self.running and now - self.idle_since > PATIENCE:
                    self.progress.say_once("No worker is free for what a job needs; waiting for one.")
                return
            self.waiting.remove(batch)
            batch.configs, done = self._unfinished(batch.configs)
            self._count(done, trained=False)
            if not batch.configs:
                continue
            try:
                self._lock(batch)
                self.executor.submit(job(batch.configs, self.options))
            except LockHeld:
                self._later(batch)
            except StoreError as error:
                self._fail(batch, str(error), "")
            else:
                self.running[batch.id] = batch
                self.journal.note("started", [c.hash for c in batch.configs], attempt=batch.losses + 1)

    def _unfinished(self, configs: Sequence[RunConfig]) -> tuple[list[RunConfig], list[str]]:
        finished = {c.hash for c in configs if self.store.is_finished(c)}
        return [c for c in configs if c.hash not in finished], [c.hash for c in configs if c.hash in finished]

    def _lock(self, batch: _Batch) -> None:
        """Where jobs do not see the store, the driver holds the locks that else the one who trains holds."""
        if not self.executor.shares_files:
            try:
                for config in batch.configs:
                    batch.locks.append(self.store.lock(config))
            except StoreError:
                self._unlock(batch)
                raise

    def _unlock(self, batch: _Batch) -> None:
        while batch.locks:
            batch.locks.pop().release()

    def _later(self, batch: _Batch) -> None:
        """Another process works on it: look again in a while, when it may be finished."""
        batch.not_before = time.monotonic() + WAIT_FOR_OTHERS
        self.waiting.append(batch)
        self.progress.say_once("Another process works on some of these runs; waiting for it to finish them.")

    def _handle(self, event: Event, interrupt: Interrupt) -> None:
        batch = self.running.pop(event.job, None)
        if batch is None:
            return
        try:
            if isinstance(event, Lost):
                self._lost(batch, event.reason)
            elif isinstance(event, Raised):
                self._settle(batch)
                self._fail(batch, event.error, event.traceback)
            else:
                self._answered(batch, event, interrupt)
        finally:
            self._unlock(batch)

    def _settle(self, batch: _Batch) -> None:
        """Count what a batch had finished before it came to its end, and leave the rest in it."""
        batch.configs, done = self._unfinished(batch.configs)
        self._count(done, trained=True)

    def _lost(self, batch: _Batch, reason: str) -> None:
        batch.losses += 1
        self._settle(batch)
        if not batch.configs:
            return
        self.journal.note("lost", [c.hash for c in batch.configs], reason=reason)
        if batch.losses > self.retries:
            self._fail(batch, f"It was lost {batch.losses} times; the last time {reason}.", "")
        else:
            self.waiting.insert(0, batch)

    def _answered(self, batch: _Batch, event: Answered, interrupt: Interrupt) -> None:
        data = event.output.data
        if batch.locks:
            data = self._keep(batch, event)
        self._count_answer(data)
        for config in batch.configs:
            if config.hash in data["failed"]:
                self._fail(_Batch([config]), *data["failed"][config.hash])
        interrupt.requested |= data["interrupted"] and self.executor.same_process
        batch.configs = [c for c in batch.configs if c.hash not in data["finished"] and c.hash not in data["failed"]]
        if batch.configs and data["busy"]:
            self._later(batch)
        elif batch.configs and data["interrupted"] and not interrupt.requested:
            self._lost(batch, "its process was asked to end by someone else and saved its state")
        elif batch.configs:
            self.waiting.insert(0, batch)

    def _keep(self, batch: _Batch, event: Answered) -> dict[str, Any]:
        """Write the runs that came back as files; one that cannot be written has failed."""
        data = event.output.data
        finished: list[str] = []
        failed = dict(data["failed"])
        for config, lock in zip(batch.configs, batch.locks):
            if config.hash not in data["finished"]:
                continue
            prefix = f"{config.hash}/"
            files = {n.removeprefix(prefix): c for n, c in event.output.files.items() if n.startswith(prefix)}
            try:
                self.store.add(config, files, lock)
                finished.append(config.hash)
            except StoreError as error:
                failed[config.hash] = [str(error), ""]
        return {**data, "finished": finished, "failed": failed}

    def _count_answer(self, data: Mapping[str, Any]) -> None:
        self._count([run for run in data["finished"] if run in data["found"]], trained=False)
        self._count([run for run in data["finished"] if run not in data["found"]], trained=True)

    def _count(self, runs: Sequence[str], *, trained: bool) -> None:
        if runs:
            self.journal.note("finished" if trained else "found", runs)
            self.progress.advance(len(runs))
        if trained:
            self.result.trained += runs

    def _fail(self, batch: _Batch, error: str, traceback: str) -> None:
        for config in batch.configs:
            log = self.journal.failure(config.hash, error, traceback)
            self.result.failed.append(Failure(config.hash, error, log))
            self.progress.failed(job([config], {}).title, error, traceback, log)
            traceback = ""  # it is the same for all of them: told once
        self.progress.advance(len(batch.configs))

    def _end_overdue(self) -> None:
        for batch in list(self.running.values()):
            if self.time_limit is not None and self.executor.seconds(batch.id) > self.time_limit:
                self.executor.cancel(batch.id)
                del self.running[batch.id]
                self._unlock(batch)
                self._settle(batch)
                self._fail(batch, f"It ran for longer than the limit of {self.time_limit:g} s and was ended.", "")

    def _stop(self) -> None:
        """Ctrl-C: let jobs save what they have, then end."""
        self.progress.say_once("Stopping: running trainings save their state. Ctrl-C again stops at once.")
        self.executor.interrupt()
        until = time.monotonic() + STOPPING
        with contextlib.suppress(KeyboardInterrupt):
            while self.running and time.monotonic() < until:
                for event in self.executor.poll(TICK):
                    batch = self.running.pop(event.job, None)
                    if batch is None:
                        continue
                    if isinstance(event, Answered):
                        data = self._keep(batch, event) if batch.locks else event.output.data
                        self._count_answer(data)
                    self._unlock(batch)
        self.journal.note("interrupted", [])
        raise TrainingInterrupted(
            "Interrupted. Everything finished is kept, local trainings saved their state; run the same command again "
            "to go on."
        )


def checked_limits(retries: int, time_limit: float | None, checkpoint_seconds: float) -> None:
    if retries < 0 or (time_limit is not None and not 0 < time_limit < math.inf):
        raise InputError(f"Retries are at least 0 and a time limit is above 0 s. Got {retries} and {time_limit}.")
    if not checkpoint_seconds >= 0:
        raise InputError(f"The time between checkpoints is at least 0 s. Got {checkpoint_seconds}.")
