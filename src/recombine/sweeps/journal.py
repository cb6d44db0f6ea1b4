"""The journal of a sweep's folder: an append-only file with one event per line, and a log per failed run."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recombine.core.errors import StoreError
from recombine.core.files import inside, open_log, read_plain, set_aside, write_text
from recombine.sweeps.failures import Reason

EVENTS = "sweep-events.jsonl"
LOGS = "sweep-logs"
MOST_EVENTS = 2**30  # bytes


class Journal:
    """A journal that drivers write to. Several drivers may write at the same time. No result depends on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with contextlib.suppress(StoreError):
            for name in (EVENTS, LOGS):
                path = folder / name
                if path.is_symlink() or (path.exists() and path.is_dir() != (name == LOGS)):
                    set_aside(path)
        self.driver = f"{platform.node()}:{os.getpid()}:{secrets.token_hex(3)}"

    def note(self, event: str, runs: Sequence[str], **facts: Any) -> None:
        """Append an event: started, found (already), finished, lost, failed, driver, interrupted."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "driver": self.driver, "event": event, "runs": list(runs), **facts}) + "\n"
        with contextlib.suppress(OSError):  # on a full disk, the run that fails to write reports the error
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = open_log(self.folder / EVENTS)
            try:
                os.write(handle, line.encode())  # a single call, so that the lines of two drivers do not mix
            finally:
                os.close(handle)

    def failure(self, run: str, why: Reason, **facts: Any) -> str | None:
        """Record a failure. Returns the file with its traceback, or None if it could not be written."""
        self.note("failed", [run], cause=why["cause"], key=why["key"], error=why["error"], **facts)
        with contextlib.suppress(StoreError):
            path = inside(self.folder, LOGS, f"{run}.log")
            write_text(path, f"{why['error']}\n\n{why['traceback']}".rstrip() + "\n")
            return str(path)
        return None


def finished_by_others(journal: Journal) -> set[str]:
    """Runs that other drivers report as finished."""
    return {
        run
        for event in events(journal.folder)
        if event.get("event") == "finished" and event.get("driver") != journal.driver and event.get("work") == "train"
        for run in event["runs"]
    }


def events(folder: Path) -> Iterator[dict[str, Any]]:
    """All events so far. Lines that were cut short by a kill or a full disk are skipped."""
    try:
        content = read_plain(folder / EVENTS, most=MOST_EVENTS)
    except (OSError, StoreError):
        return
    for line in content.decode(errors="replace").splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            event = json.loads(line)
            runs = event.get("runs") if isinstance(event, dict) else None
            if isinstance(runs, list) and all(isinstance(run, str) for run in runs):
                yield event
