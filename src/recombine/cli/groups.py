"""The help of the application, with commands grouped by task."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

TASKS = {
    "First steps": ("demo", "doctor"),
    "Train and compare": ("train", "sweep", "runs", "compare"),
    "Your own data, models and code": ("data", "diagnose", "plugins"),
    "Results": ("reproduce", "report"),
}
OTHER = "Other commands"


class GroupedCommands(TyperGroup):
    """Lists commands under the task they serve. Commands that belong to no task come last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the grouped commands into the help text."""
        names = self.list_commands(ctx)
        named = {name for commands in TASKS.values() for name in commands}
        sections = {**TASKS, OTHER: tuple(name for name in names if name not in named)}
        limit = formatter.width - 6 - max(map(len, names))
        for title, commands in sections.items():
            found = [(name, self.get_command(ctx, name)) for name in commands if name in names]
            rows = [(name, command.get_short_help_str(limit)) for name, command in found if command is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
