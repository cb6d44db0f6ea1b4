"""The status of a sweep, read from its folder, while the sweep runs or afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from recombine.core.errors import StoreError
from recombine.core.lock import Holder, holder
from recombine.runs.identity import StoredNames
from recombine.runs.layout import LOCK, RUN
from recombine.runs.listing import listed_run
from recombine.runs.store import Store
from recombine.sweeps import manifest
from recombine.sweeps.jobs.work import DIAGNOSE
from recombine.sweeps.journal import LOGS, events

MOST_LINES = 20  # maximum number of runs listed per state


@dataclass(frozen=True)
class Running:
    """A run that a live process is working on."""

    run: str
    host: str
    pid: int
    seconds: float  # since the process started the run


@dataclass
class SweepStatus:
    """The runs of a sweep's folder by state. Every run is in exactly one of the lists."""

    finished: list[str] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # with the reason
    damaged: dict[str, str] = field(default_factory=dict)  # with the reason; a sweep trains them again
    waiting: list[str] = field(default_factory=list)
    diagnosed: list[str] | None = None  # finished runs with a diagnosis; None if the last sweep requested none
    seconds_left: float | None = None  # None if nothing is running, or nothing has finished yet

    @property
    def total(self) -> int:
        """The number of runs in the sweep."""
        return len(self.finished) + len(self.running) + len(self.failed) + len(self.damaged) + len(self.waiting)

    def to_json(self) -> dict[str, Any]:
        """The status as JSON values."""
        return {
            "total": self.total,
            "finished": len(self.finished),
            "running": [vars(running) for running in self.running],
            "failed": self.failed,
            "damaged": self.damaged,
            "waiting": len(self.waiting),
            "diagnosed": None if self.diagnosed is None else len(self.diagnosed),
            "seconds_left": self.seconds_left,
        }

    def __str__(self) -> str:
        left = "" if self.seconds_left is None else f"; about {clock(self.seconds_left)} left"
        counts = {"running": self.running, "failed": self.failed, "damaged": self.damaged, "waiting": self.waiting}
        told = ", ".join(f"{len(runs)} {name}" for name, runs in counts.items() if runs or name != "damaged")
        diagnosed = "" if self.diagnosed is None else f" ({len(self.diagnosed)} diagnosed)"
        lines = [f"{len(self.finished)} of {self.total} runs finished{diagnosed}, {told}{left}"]
        lines += [f"  running  {r.run}  process {r.pid} on {r.host}, {clock(r.seconds)}" for r in self.running]
        for name, runs in (("failed", self.failed), ("damaged", self.damaged)):
            lines += [f"  {name:<7}  {run}  {_first_line(why)}" for run, why in list(runs.items())[:MOST_LINES]]
            lines += [f"  {name:<7}  … and {len(runs) - MOST_LINES} more (--json)"] if len(runs) > MOST_LINES else []
        return "\n".join(lines)


def status(folder: str | Path) -> SweepStatus:
    """Read the state of a sweep's folder."""
    store = Store(folder)
    known = manifest.read(store.root)
    if known is None:
        raise StoreError(
            f"{folder} is not the folder of a sweep, because it has no {manifest.NAME}. Start one with `recombine "
            "sweep`."
        )
    now, log = time.time(), list(events(store.root))
    errors = _errors(log)
    found, names = SweepStatus(), StoredNames()
    for run in known["runs"]:
        row = listed_run(store.root, run, names)
        who: Holder | None = None
        if row.status.finished:
            found.finished.append(run)
        elif (who := holder(store.root / run / LOCK)) is not None:
            found.running.append(Running(run, who.host, who.pid, max(0.0, now - who.since)))
        elif run in errors:
            found.failed[run] = f"{errors[run]} (log: {store.root / LOGS / f'{run}.log'})"
        elif row.status.damaged and os.path.lexists(store.root / run / RUN):
            found.damaged[run] = row.status.reason
        else:
            found.waiting.append(run)
    if any(event.get("diagnoses") for event in log):
        found.diagnosed = [run for run in found.finished if (store.root / run / "diagnosis/diagnosis.json").is_file()]
    found.seconds_left = _left(log, found, now)
    return found


def _errors(log: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Runs whose last event is a failure."""
    errors: dict[str, str] = {}
    for event in log:
        for run in event["runs"]:
            if event.get("work") == DIAGNOSE:
                continue
            if event.get("event") == "failed":
                errors[run] = str(event.get("error"))
            else:
                errors.pop(run, None)
    return errors


def _left(log: Sequence[dict[str, Any]], found: SweepStatus, now: float) -> float | None:
    """Estimate the remaining time from the rate of finished runs since the last driver started."""
    begun = next((i for i in range(len(log) - 1, -1, -1) if log[i].get("event") == "driver"), None)
    if begun is None or not found.running:
        return None
    done = sum(
        len(event["runs"])
        for event in log[begun:]
        if event.get("event") == "finished" and event.get("work") != DIAGNOSE
    )
    try:
        spent = now - datetime.fromisoformat(str(log[begun].get("time"))).timestamp()
    except ValueError:
        return None
    return (len(found.waiting) + len(found.running)) * spent / done if done and spent > 0 else None


def clock(seconds: float) -> str:
    """Format a duration as 1:02:03, 2:03 or 0.4 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def _first_line(text: str) -> str:
    first, *rest = text.splitlines() or [""]
    return first + (f" {rest[-1]}" if rest else "")
