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
from recombine.core.files import write_text

EVENTS = "sweep-events.jsonl"
LOGS = "sweep-logs"


class Journal:
    """Written by drivers; several may write at once. Losing a line of it costs no run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.driver = f"{platform.node()}:{os.getpid()}:{secrets.token_hex(3)}"

    def note(self, event: str, runs: Sequence[str], **facts: Any) -> None:
        """Add an event: started, found (already), finished, lost, failed, driver, interrupted."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "driver": self.driver, "event": event, "runs": list(runs), **facts}) + "\n"
        with contextlib.suppress(OSError):  # a full disk is reported by the run that meets it
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / EVENTS, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
            try:
                os.write(handle, line.encode())  # one call, so that lines of two drivers do not mix
            finally:
                os.close(handle)

    def failure(self, run: str, error: str, traceback: str, **facts: Any) -> str | None:
        """Note a failure; the file with its traceback, or None if it could not be written."""
        self.note("failed", [run], error=error, **facts)
        path = self.folder / LOGS / f"{run}.log"
        with contextlib.suppress(StoreError):
            write_text(path, f"{error}\n\n{traceback}".rstrip() + "\n")
            return str(path)
        return None


def events(folder: Path) -> Iterator[dict[str, Any]]:
    """All events so far; lines that a kill or a full disk cut short are left out."""
    try:
        lines = (folder / EVENTS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            event = json.loads(line)
            runs = event.get("runs") if isinstance(event, dict) else None
            if isinstance(runs, list) and all(isinstance(run, str) for run in runs):
                yield event
