"""The loop of a sweep: hands work to an engine, keeps what comes back, tries again what was lost."""

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
from recombine.sweeps.engines.engine import Answered, Engine, Event, Lost, Raised
from recombine.sweeps.jobs.work import DIAGNOSE, Answer, Options, Work
from recombine.sweeps.journal import Journal, finished_by_others
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
        diagnosed: Runs that have the diagnosis that was asked for.
        undiagnosed: Finished runs whose diagnosis failed.
        seconds: How long it took.
    """

    finished: list[str] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    trained: list[str] = field(default_factory=list)
    diagnosed: list[str] = field(default_factory=list)
    undiagnosed: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, work: str, runs: Sequence[str], *, here: bool) -> None:
        """Some work on runs is done, by this call or not."""
        if work == DIAGNOSE:
            self.diagnosed += runs
        elif here:
            self.trained += runs

    def fail(self, work: str, failure: Failure) -> None:
        """Record a failure of training or of diagnosing."""
        (self.undiagnosed if work == DIAGNOSE else self.failed).append(failure)


class Driver:
    """Runs work to its end.

    Args:
        store: Where runs are and go.
        engine: What runs jobs.
        options: For all jobs.
        retries: How often work whose worker died is tried again.
        time_limit: Seconds after which a job is ended and counts as failed.
        then: What follows for a run that work has finished: more work, or None.
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
        """Until all work is done or has failed."""
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
        """Nothing runs: until when nothing can be started."""
        pause = max(0.0, min((work.not_before for work in self.waiting), default=0.0) - time.monotonic())
        time.sleep(min(TICK, pause))
        return 0.0

    def _fill(self) -> None:
        """Start what can be started."""
        now = time.monotonic()
        self.idle_since = now if self.running else self.idle_since
        for work in [waiting for waiting in self.waiting if waiting.not_before <= now]:
            if len(self.running) >= self.engine.capacity():
                if not self.running and now - self.idle_since > PATIENCE:
                    self.progress.say_once("No worker is free for what a job needs; waiting for one.")
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
                self._fail(work, str(error), "")
            else:
                self.running[work.id] = work
                runs = [config.hash for config in work.configs]
                self.journal.note("started", runs, work=work.name, attempt=work.losses + 1)

    def _drop_done(self, work: Work, *, before: bool = False) -> None:
        """Count what is done of some work, and leave the rest in it.

        What was done before its job began was done by others, and so was what another driver says it finished: this
        one may have been asleep.
        """
        done = {config.hash: config for config in work.configs if work.is_done(self.store, config)}
        if not done:
            return
        work.configs = [config for config in work.configs if config.hash not in done]
        others = set(done) if before else finished_by_others(self.journal) & set(done)
        self._count(work, [config for run, config in done.items() if run in others], here=False)
        self._count(work, [config for run, config in done.items() if run not in others], here=True)

    def _lock(self, work: Work) -> None:
        """Where jobs do not see the store, the driver holds the locks that else the one who trains holds."""
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
        """Another process works on it: look again in a while, when it may be finished."""
        work.not_before = time.monotonic() + WAIT_FOR_OTHERS
        self.waiting.append(work)
        self.progress.say_once("Another process works on some of these runs; waiting for it to finish them.")

    def _handle(self, event: Event, interrupt: Interrupt) -> None:
        work = self.running.pop(event.job, None)
        if work is None:
            return
        try:
            if isinstance(event, Lost):
                self._lost(work, event.reason)
            elif isinstance(event, Raised):
                self._drop_done(work)
                self._fail(work, event.error, event.traceback)
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
            self._fail(work, f"It was lost {work.losses} times; the last time {reason}.", "")
        else:
            self.waiting.insert(0, work)

    def _answered(self, work: Work, event: Answered, interrupt: Interrupt) -> None:
        answer = self._kept(work, event)
        self._count_answer(work, answer)
        for config in work.configs:
            if config.hash in answer["failed"]:
                self._fail(work.of([config]), *answer["failed"][config.hash])
        interrupt.requested |= answer["interrupted"] and self.engine.same_process
        over = {*answer["finished"], *answer["failed"]}
        work.configs = [config for config in work.configs if config.hash not in over]
        if work.configs and answer["busy"]:
            self._later(work)
        elif work.configs and answer["interrupted"] and not interrupt.requested:
            self._lost(work, "its process was asked to end by someone else and saved its state")
        elif work.configs and interrupt.requested:
            self.waiting.insert(0, work)
        elif work.configs:
            self._lost(work, "its job ended without a result")

    def _kept(self, work: Work, event: Answered) -> Answer:
        """The answer; results that came back as files are written first, and those that cannot be have failed."""
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
            except LockLost:  # this process slept, and another one has taken the run up
                busy.append(config.hash)
            except StoreError as error:
                failed[config.hash] = [str(error), ""]
        return {**answer, "finished": finished, "failed": failed, "busy": busy} if work.locks else answer

    def _count_answer(self, work: Work, answer: Answer) -> None:
        finished = [config for config in work.configs if config.hash in answer["finished"]]
        self._count(work, [config for config in finished if config.hash in answer["found"]], here=False)
        self._count(work, [config for config in finished if config.hash not in answer["found"]], here=True)

    def _count(self, work: Work, configs: Sequence[RunConfig], *, here: bool) -> None:
        """Some runs are done, by a job of this sweep or not; what follows for them waits at the end."""
        if not configs:
            return
        runs = [config.hash for config in configs]
        self.journal.note("finished" if here else "found", runs, work=work.name)
        self.progress.advance(len(runs))
        self.result.add(work.name, runs, here=here)
        following = [self.then(work, config) for config in configs]
        self.waiting += [more for more in following if more is not None]

    def _fail(self, work: Work, error: str, traceback: str) -> None:
        for config in work.configs:
            log = self.journal.failure(config.hash, error, traceback, work=work.name)
            self.result.fail(work.name, Failure(config.hash, error, log))
            self.progress.failed(work.of([config]).title, error, traceback, log)
            traceback = ""  # it is the same for all of them: told once
        self.progress.advance(len(work.configs))

    def _end_overdue(self) -> None:
        for work in list(self.running.values()):
            if self.time_limit is not None and self.engine.seconds(work.id) > self.time_limit:
                self.engine.cancel(work.id)
                del self.running[work.id]
                self._unlock(work)
                self._drop_done(work)
                self._fail(work, f"It ran for longer than the limit of {self.time_limit:g} s and was ended.", "")

    def _stop(self) -> None:
        """Ctrl-C: let jobs save what they have, then end."""
        self.progress.say_once("Stopping: running trainings save their state. Ctrl-C again stops at once.")
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
            "Interrupted. Everything finished is kept, local trainings saved their state; run the same command again "
            "to go on."
        )


def checked_limits(retries: int, time_limit: float | None, checkpoint_seconds: float) -> None:
    """Raise `InputError` for limits that make no sense."""
    if retries < 0 or (time_limit is not None and not 0 < time_limit < math.inf):
        raise InputError(f"Retries are at least 0 and a time limit is above 0 s. Got {retries} and {time_limit}.")
    if not checkpoint_seconds >= 0:
        raise InputError(f"The time between checkpoints is at least 0 s. Got {checkpoint_seconds}.")
