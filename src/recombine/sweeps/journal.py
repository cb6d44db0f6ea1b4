"""What happened in a sweep's folder: an event per line, only ever added to, and a log for each run that failed."""

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

EVENTS = "sweep-events.jsonl"
LOGS = "sweep-logs"
MOST_EVENTS = 2**30  # bytes


class Journal:
    """Written by drivers; several may write at once. Losing a line of it costs no run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with contextlib.suppress(StoreError):
            for name in (EVENTS, LOGS):
                path = folder / name
                if path.is_symlink() or (path.exists() and path.is_dir() != (name == LOGS)):
                    set_aside(path)
        self.driver = f"{platform.node()}:{os.getpid()}:{secrets.token_hex(3)}"

    def note(self, event: str, runs: Sequence[str], **facts: Any) -> None:
        """Add an event: started, found (already), finished, lost, failed, driver, interrupted."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "driver": self.driver, "event": event, "runs": list(runs), **facts}) + "\n"
        with contextlib.suppress(OSError):  # a full disk is reported by the run that meets it
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = open_log(self.folder / EVENTS)
            try:
                os.write(handle, line.encode())  # one call, so that lines of two drivers do not mix
            finally:
                os.close(handle)

    def failure(self, run: str, error: str, traceback: str, **facts: Any) -> str | None:
        """Note a failure; the file with its traceback, or None if it could not be written."""
        self.note("failed", [run], error=error, **facts)
        with contextlib.suppress(StoreError):
            path = inside(self.folder, LOGS, f"{run}.log")
            write_text(path, f"{error}\n\n{traceback}".rstrip() + "\n")
            return str(path)
        return None


def finished_by_others(journal: Journal) -> set[str]:
    """Runs that other drivers say they have finished."""
    return {
        run
        for event in events(journal.folder)
        if event.get("event") == "finished" and event.get("driver") != journal.driver and event.get("work") == "train"
        for run in event["runs"]
    }


def events(folder: Path) -> Iterator[dict[str, Any]]:
    """All events so far; lines that a kill or a full disk cut short are left out."""
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
