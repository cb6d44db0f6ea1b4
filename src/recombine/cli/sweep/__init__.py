"""The commands `recombine sweep`, `recombine sweep status` and `recombine sweep table`."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from recombine.cli.sweep import run, status, table


class SweepGroup(TyperGroup):
    """Makes `recombine sweep a=b` short for `recombine sweep run a=b`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["run", *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    group = typer.Typer(
        cls=SweepGroup,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="""Train many configurations, on many cores or machines.

        An interrupted sweep resumes when the same command is run again.

        Examples (for the options, see recombine sweep run --help):

        recombine sweep decoder.depth=2,3,4 seed=0..7 encoding.kind=bump,ramp

        recombine sweep sweep.yaml --engine ray --address auto
        """,
    )
    for module in (run, status, table):
        module.register(group)
    app.add_typer(group, name="sweep")
