"""The command `recombine sweep status`."""

from __future__ import annotations

import typer

from recombine.cli.command import command
from recombine.cli.options import Json, SweepFolder
from recombine.cli.output import say, show_json


def register(group: typer.Typer) -> None:
    """Add the command to the group."""
    group.command("status")(show_status)


@command
def show_status(folder: SweepFolder, as_json: Json = False) -> None:
    """Show the progress of a sweep: finished, running, failed and waiting runs. Works from any terminal.

    \b
    Example:
      recombine sweep status runs
    """
    from recombine import sweeps

    found = sweeps.status(folder)
    if as_json:
        show_json(found.to_json())
    else:
        say(str(found))
