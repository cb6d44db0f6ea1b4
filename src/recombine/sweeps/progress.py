"""Progress of a sweep on the terminal: one bar for the sweep, a line per running job, and failures as they happen."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any


class SweepProgress:
    """Progress on standard error. Without a terminal, only failures are printed.

    Args:
        total: Number of runs.
        show: Whether to show the bars; None shows them only on a terminal.
        quiet: Print nothing; the caller reports failures.
    """

    def __init__(self, total: int, show: bool | None = None, quiet: bool = False) -> None:
        self.total, self.done, self.failures = total, 0, 0
        self.quiet = quiet
        self.show_bars = not quiet and (sys.stderr.isatty() if show is None else show)
        self._said: set[str] = set()
        self._lines: dict[str, Any] = {}
        self._bars: Any = None
        if self.show_bars:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            self._bars = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[note]}", markup=False),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._all = self._bars.add_task("sweep", total=total, note=f"0/{total}")

    def __enter__(self) -> SweepProgress:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self.show([])
            self._bars.stop()

    def advance(self, runs: int) -> None:
        """Count more runs as finished or failed."""
        self.done += runs
        if self._bars is not None:
            note = f"{self.done}/{self.total}" + (f", {self.failures} failed" if self.failures else "")
            self._bars.update(self._all, completed=self.done, note=note)

    def show(self, running: Sequence[str]) -> None:
        """Show the titles of the running jobs."""
        if self._bars is None:
            return
        for title in [t for t in self._lines if t not in running]:
            self._bars.remove_task(self._lines.pop(title))
        for title in [t for t in running if t not in self._lines]:
            self._lines[title] = self._bars.add_task(f"  {title}", total=None, note="running")

    def failed(self, title: str, error: str, traceback: str, log: str | None) -> None:
        """Print a failed run immediately."""
        self.failures += 1
        where = f"\n  log: {log}" if log else ""
        indented = "".join(f"  {line}\n" for line in traceback.rstrip().splitlines())
        self._say(f"failed: {title}: {error}\n{indented.rstrip()}{where}".replace("\n\n", "\n"))

    def say_once(self, text: str) -> None:
        """Print a message unless it has been printed before."""
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    def _say(self, text: str) -> None:
        if self.quiet:
            return
        if self._bars is not None:
            self._bars.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)
