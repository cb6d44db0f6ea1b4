"""Progress on the terminal: a bar with the time left and live numbers; silent when the output is not a terminal."""

from __future__ import annotations

import sys
from types import TracebackType


class ProgressBar:
    """A bar on standard error.

    Args:
        title: Description of the task.
        total: Number of steps.
        show: None shows the bar only on a terminal.
    """

    def __init__(self, title: str, total: int, show: bool | None = None) -> None:
        self.show = sys.stderr.isatty() if show is None else show
        self._note = ""
        self._begun = 0
        if self.show:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task(title, total=total, note="")

    def __enter__(self) -> ProgressBar:
        if self.show:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.show:
            self._bar.stop()

    def update(self, step: int, note: str | None = None) -> None:
        if self.show:
            self._note = self._note if note is None else note
            self._bar.update(self._task, completed=step, note=self._note)

    def advance(self, note: str) -> None:
        """Begin the next step."""
        self.update(self._begun, note)
        self._begun += 1
