"""The command `recombine plugins`: list the loaded plug-ins and what they add."""

from __future__ import annotations

import typer

from recombine.cli.command import command
from recombine.cli.options import Json
from recombine.cli.output import say, show_json


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("plugins")(show_plugins)


@command
def show_plugins(as_json: Json = False) -> None:
    """List the plug-ins with their hashes and kinds.

    Lists the installed plug-ins and those given by --plugin.

    \b
    Example:
      recombine plugins --plugin mine.py
    """
    from recombine.core import plugins

    found = [
        {"name": p.name, "sha256": p.sha256, "file": p.path or None, "kinds": [f"{f} {k}" for f, k in p.kinds]}
        for p in plugins.loaded()
    ]
    if as_json:
        show_json(found)
        return
    for plugin in found:
        say(f"{plugin['name']}  {plugin['sha256']}\n  {', '.join(plugin['kinds']) or 'registers nothing'}")
    if not found:
        say("No plug-ins are loaded. Load one with --plugin; see docs/extending.md.")
