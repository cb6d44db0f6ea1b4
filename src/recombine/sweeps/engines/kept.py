"""An engine that several sweeps use one after the other, so that workers start only once."""

from __future__ import annotations

from collections.abc import Sequence

from recombine.sweeps.engines.choice import start_engine
from recombine.sweeps.engines.engine import Engine, EngineOptions, Event, Job


class KeptEngine:
    """Starts an engine, and keeps its idle workers when a sweep closes it. `stop` ends them.

    Args:
        name: Name of the engine.
        options: Options to start it with.
    """

    def __init__(self, name: str, options: EngineOptions) -> None:
        self.name = name
        self.engine: Engine = start_engine(name, options)
        self.shares_files, self.same_process = self.engine.shares_files, self.engine.same_process
        self.running: set[str] = set()

    def capacity(self) -> int:
        return self.engine.capacity()

    def submit(self, job: Job) -> None:
        self.running.add(job.id)
        self.engine.submit(job)

    def poll(self, timeout: float) -> Sequence[Event]:
        events = self.engine.poll(timeout)
        self.running -= {event.job for event in events}
        return events

    def seconds(self, job: str) -> float:
        return self.engine.seconds(job)

    def cancel(self, job: str) -> None:
        self.running.discard(job)
        self.engine.cancel(job)

    def interrupt(self) -> None:
        self.engine.interrupt()

    def close(self) -> None:
        """Stop the jobs of the current sweep. Idle workers keep running."""
        for job in list(self.running):
            self.cancel(job)

    def stop(self) -> None:
        """Stop everything immediately."""
        self.engine.close()
