"""The command line. Commands import heavy packages inside their functions, so that --help answers at once."""

from __future__ import annotations

from typing import Annotated

import typer

import recombine
from recombine.cli import compare, data, demo, diagnose, doctor, plugins, report, reproduce, runs, sweep, train
from recombine.cli.command import run_app
from recombine.cli.groups import GroupedCommands

app = typer.Typer(
    name="recombine",
    cls=GroupedCommands,
    help="Study compositional generalization: hold out combinations, train decoders and diagnose what they do.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich takes longer than the rest of --help
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"recombine {recombine.__version__}")
        raise typer.Exit


for module in (demo, train, runs, data, diagnose, sweep, reproduce, compare, report, plugins, doctor):
    module.register(app)


def main() -> None:
    """Entry point."""
    run_app(app)
