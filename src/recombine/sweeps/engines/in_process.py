"""Runs jobs one after the other in this process. It is slow but simple, and works with debuggers."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from recombine.sweeps.engines.engine import ENGINES, EngineOptions, Event, Job, Overdue, attempt
from recombine.sweeps.engines.processes import fitting


class TimeLimit(BaseException):
    """A job exceeded its time limit. It is not an `Exception`, so jobs that catch exceptions do not suppress it."""


class InProcess:
    """Runs a job when it is polled.

    Args:
        time_limit: Seconds after which a job is stopped. This needs the main thread and stops Python code only: a
            process cannot stop a call that hangs in native code.
    """

    shares_files = True
    same_process = True

    def __init__(self, time_limit: float | None = None) -> None:
        self.time_limit = time_limit
        self.waiting: deque[Job] = deque()

    def capacity(self) -> int:
        return 1

    def submit(self, job: Job) -> None:
        self.waiting.append(job)

    def poll(self, timeout: float) -> Sequence[Event]:
        if not self.waiting:
            return []
        job = self.waiting.popleft()
        try:
            with _limited(self.time_limit):
                return [attempt(job)]
        except TimeLimit:
            return [Overdue(job.id)]

    def seconds(self, job: str) -> float:
        return 0.0

    def cancel(self, job: str) -> None:
        self.waiting = deque(j for j in self.waiting if j.id != job)

    def interrupt(self) -> None:
        self.waiting.clear()

    def close(self) -> None:
        self.waiting.clear()


@contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    if seconds is None or threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeLimit

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _start(options: EngineOptions) -> InProcess:
    fitting(options.needs, None)
    return InProcess(options.time_limit)


ENGINES.add("in-process", _start)
