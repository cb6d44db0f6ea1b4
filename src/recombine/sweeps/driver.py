"""The main loop of a sweep. It submits work to an engine, stores the results and retries lost jobs."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from recombine.core.errors import InputError, LockHeld, LockLost, StoreError, TrainingInterrupted
from recombine.core.interrupt import Interrupt, interruptible
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.sweeps.engines.engine import Answered, Engine, Event, Lost, Overdue, Raised
from recombine.sweeps.failures import Cause, Failure, Reason, because, reason_of
from recombine.sweeps.jobs.work import DIAGNOSE, Answer, Options, Work
from recombine.sweeps.journal import Journal, finished_by_others
from recombine.sweeps.progress import SweepProgress

TICK = 0.2
WAIT_FOR_OTHERS = 2.0  # seconds until a run that another process is working on is checked again
PATIENCE = 20.0  # seconds without a free worker (as on a full cluster) before a message is printed
STOPPING = 30.0  # seconds that jobs have to save their state


@dataclass
class SweepResult:
    """The outcome of a sweep.

    Attributes:
        finished: Ids of the runs that are now in the store, in the requested order, whichever process trained them.
        failed: The other runs.
        trained: The finished runs that this call trained.
        diagnosed: Runs that have the requested diagnosis.
        undiagnosed: Finished runs whose diagnosis failed.
        seconds: Duration of the sweep.
    """

    finished: list[str] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    trained: list[str] = field(default_factory=list)
    diagnosed: list[str] = field(default_factory=list)
    undiagnosed: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, work: str, runs: Sequence[str], *, here: bool) -> None:
        """Record finished work, done by this call (`here`) or by another process."""
        if work == DIAGNOSE:
            self.diagnosed += runs
        elif here:
            self.trained += runs

    def fail(self, work: str, failure: Failure) -> None:
        """Record a failure of training or of diagnosing."""
        (self.undiagnosed if work == DIAGNOSE else self.failed).append(failure)


class Driver:
    """Runs work until it is done.

    Args:
        store: Store of the runs.
        engine: Engine that runs the jobs.
        options: Options of all jobs.
        retries: How often to retry work whose worker died.
        time_limit: Seconds after which a job is stopped and counts as failed.
        then: Maps finished work and one of its runs to the work that follows for the run, or to None.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        journal: Journal,
        progress: SweepProgress,
        *,
        options: Options,
        retries: int,
        time_limit: float | None,
        then: Callable[[Work, RunConfig], Work | None] = lambda work, config: None,
    ) -> None:
        self.store, self.engine, self.journal, self.progress = store, engine, journal, progress
        self.options, self.retries, self.time_limit, self.then = options, retries, time_limit, then
        self.waiting: list[Work] = []
        self.running: dict[str, Work] = {}
        self.result = SweepResult()
        self.idle_since = time.monotonic()

    def run(self, planned: Sequence[Work]) -> SweepResult:
        """Run until all work is done or has failed."""
        started = time.monotonic()
        self.waiting = list(planned)
        try:
            with interruptible() as interrupt, self.progress:
                while self.waiting or self.running:
                    if interrupt.requested:
                        self._stop()
                    self._fill()
                    for event in self.engine.poll(TICK if self.running else min(TICK, self._pause())):
                        self._handle(event, interrupt)
                    self._end_overdue()
                    self.progress.show([work.title for work in self.running.values()])
        finally:
            self.engine.close()
            for work in self.running.values():
                self._unlock(work)
            self.result.seconds = time.monotonic() - started
        return self.result

    def _pause(self) -> float:
        """How long to wait while nothing runs and nothing can be started."""
        pause = max(0.0, min((work.not_before for work in self.waiting), default=0.0) - time.monotonic())
        time.sleep(min(TICK, pause))
        return 0.0

    def _fill(self) -> None:
        """Start all work that can be started."""
        now = time.monotonic()
        self.idle_since = now if self.running else self.idle_since
        for work in [waiting for waiting in self.waiting if waiting.not_before <= now]:
            if len(self.running) >= self.engine.capacity():
                if not self.running and now - self.idle_since > PATIENCE:
                    self.progress.say_once("No worker has free resources for a job. Waiting.")
                return
            self.waiting.remove(work)
            self._drop_done(work, before=True)
            if not work.configs:
                continue
            try:
                self._lock(work)
                self.engine.submit(work.job(self.options, self.store))
            except LockHeld:
                self._later(work)
            except StoreError as error:
                self._fail(work, reason_of(error))
            else:
                self.running[work.id] = work
                runs = [config.hash for config in work.configs]
                self.journal.note("started", runs, work=work.name, attempt=work.losses + 1)

    def _drop_done(self, work: Work, *, before: bool = False) -> None:
        """Record the finished runs of some work and remove them from it.

        A result counts as the work of another process if it existed before the job started, or if another driver
        reported it as finished. The latter happens if this process was suspended in the meantime.
        """
        done = {config.hash: config for config in work.configs if work.is_done(self.store, config)}
        if not done:
            return
        work.configs = [config for config in work.configs if config.hash not in done]
        others = set(done) if before else finished_by_others(self.journal) & set(done)
        self._count(work, [config for run, config in done.items() if run in others], here=False)
        self._count(work, [config for run, config in done.items() if run not in others], here=True)

    def _lock(self, work: Work) -> None:
        """Acquire the locks of the runs if jobs do not see the store. Otherwise the training job acquires them."""
        if not self.engine.shares_files:
            try:
                for config in work.configs:
                    work.locks.append(self.store.lock(config))
            except StoreError:
                self._unlock(work)
                raise

    def _unlock(self, work: Work) -> None:
        while work.locks:
            work.locks.pop().release()

    def _later(self, work: Work) -> None:
        """Another process is working on these runs: check again later."""
        work.not_before = time.monotonic() + WAIT_FOR_OTHERS
        self.waiting.append(work)
        self.progress.say_once("Another process is working on some of these runs. Waiting for it to finish.")

    def _handle(self, event: Event, interrupt: Interrupt) -> None:
        work = self.running.pop(event.job, None)
        if work is None:
            return
        try:
            if isinstance(event, Lost):
                self._lost(work, event.reason)
            elif isinstance(event, Overdue):
                self._overdue(work)
            elif isinstance(event, Raised):
                self._drop_done(work)
                self._fail(work, because(Cause.UNEXPECTED, event.error, event.traceback))
            else:
                self._answered(work, event, interrupt)
        finally:
            self._unlock(work)

    def _lost(self, work: Work, reason: str) -> None:
        work.losses += 1
        self._drop_done(work)
        if not work.configs:
            return
        self.journal.note("lost", [config.hash for config in work.configs], work=work.name, reason=reason)
        if work.losses > self.retries:
            self._fail(work, because(Cause.LOST, f"The job was lost {work.losses} times. Last time, {reason}."))
        else:
            self.waiting.insert(0, work)

    def _answered(self, work: Work, event: Answered, interrupt: Interrupt) -> None:
        answer = self._kept(work, event)
        self._count_answer(work, answer)
        for config in work.configs:
            if config.hash in answer["failed"]:
                self._fail(work.of([config]), answer["failed"][config.hash])
        interrupt.requested |= answer["interrupted"] and self.engine.same_process
        over = {*answer["finished"], *answer["failed"]}
        work.configs = [config for config in work.configs if config.hash not in over]
        if work.configs and answer["busy"]:
            self._later(work)
        elif work.configs and answer["interrupted"] and not interrupt.requested:
            self._lost(work, "another program terminated its process, which saved its state")
        elif work.configs and interrupt.requested:
            self.waiting.insert(0, work)
        elif work.configs:
            self._lost(work, "its job ended without a result")

    def _kept(self, work: Work, event: Answered) -> Answer:
        """Store results that were returned as files, and return the answer. Failures to store are listed in it."""
        answer = cast("Answer", event.output.data)
        finished: list[str] = []
        failed, busy = dict(answer["failed"]), list(answer["busy"])
        for config, lock in zip(work.configs, work.locks):
            if config.hash not in answer["finished"]:
                continue
            prefix = f"{config.hash}/"
            files = {n.removeprefix(prefix): c for n, c in event.output.files.items() if n.startswith(prefix)}
            try:
                work.keep(self.store, config, files, lock)
                finished.append(config.hash)
            except LockLost:  # this process was suspended, and another one took over the run
                busy.append(config.hash)
            except StoreError as error:
                failed[config.hash] = reason_of(error)
        return {**answer, "finished": finished, "failed": failed, "busy": busy} if work.locks else answer

    def _count_answer(self, work: Work, answer: Answer) -> None:
        finished = [config for config in work.configs if config.hash in answer["finished"]]
        self._count(work, [config for config in finished if config.hash in answer["found"]], here=False)
        self._count(work, [config for config in finished if config.hash not in answer["found"]], here=True)

    def _count(self, work: Work, configs: Sequence[RunConfig], *, here: bool) -> None:
        """Record runs finished by this sweep (`here`) or by another process, and queue the work that follows."""
        if not configs:
            return
        runs = [config.hash for config in configs]
        self.journal.note("finished" if here else "found", runs, work=work.name)
        self.progress.advance(len(runs))
        self.result.add(work.name, runs, here=here)
        following = [self.then(work, config) for config in configs]
        self.waiting += [more for more in following if more is not None]

    def _fail(self, work: Work, why: Reason) -> None:
        traceback = why["traceback"]
        for config in work.configs:
            log = self.journal.failure(config.hash, why, work=work.name)
            self.result.fail(work.name, Failure(config.hash, Cause(why["cause"]), why["key"], why["error"], log))
            self.progress.failed(work.of([config]).title, why["error"], traceback, log)
            traceback = ""  # all runs of a job share it, so it is shown once
        self.progress.advance(len(work.configs))

    def _end_overdue(self) -> None:
        for work in list(self.running.values()):
            if self.time_limit is not None and self.engine.seconds(work.id) > self.time_limit:
                self.engine.cancel(work.id)
                del self.running[work.id]
                self._unlock(work)
                self._overdue(work)

    def _overdue(self, work: Work) -> None:
        self._drop_done(work)
        self._fail(work, because(Cause.TIME_LIMIT, f"The job exceeded the time limit of {self.time_limit} s."))

    def _stop(self) -> None:
        """Handle Ctrl-C: let jobs save their state, then stop."""
        self.progress.say_once("Stopping: running jobs save their state. Press Ctrl-C again to stop immediately.")
        self.engine.interrupt()
        until = time.monotonic() + STOPPING
        with contextlib.suppress(KeyboardInterrupt):
            while self.running and time.monotonic() < until:
                for event in self.engine.poll(TICK):
                    work = self.running.pop(event.job, None)
                    if work is None:
                        continue
                    if isinstance(event, Answered):
                        self._count_answer(work, self._kept(work, event))
                    self._unlock(work)
        self.journal.note("interrupted", [])
        raise TrainingInterrupted(
            "Interrupted. All finished runs are stored, and local training jobs saved their state. "
            "Run the same command again to resume."
        )


def checked_limits(retries: int, time_limit: float | None, checkpoint_seconds: float) -> None:
    """Raise `InputError` for invalid limits."""
    if retries < 0 or (time_limit is not None and not 0 < time_limit < math.inf):
        raise InputError(
            f"The number of retries must be at least 0 and the time limit above 0 s. Got {retries} and {time_limit}."
        )
    if not checkpoint_seconds >= 0:
        raise InputError(f"The time between checkpoints must be at least 0 s. Got {checkpoint_seconds}.")
