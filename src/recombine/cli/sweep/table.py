"""The command `recombine sweep table`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from recombine.cli.command import command
from recombine.cli.options import Json, SweepFolder
from recombine.cli.output import say, show_json


def register(group: typer.Typer) -> None:
    """Add the command to the group."""
    group.command("table")(show_results)


@command
def show_results(
    folder: SweepFolder,
    group: Annotated[bool, typer.Option("--group", help="Print means over seeds with 95 % intervals.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Include all settings, not only those that differ between runs.")
    ] = False,
    save: Annotated[
        list[Path] | None, typer.Option("--save", help="Write to FILE.csv or FILE.parquet. Can be repeated.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Save a plot to this file.")] = None,
    x: Annotated[
        str | None, typer.Option("--x", help="Setting on the x axis; default: the first one that differs between runs.")
    ] = None,
    y: Annotated[str, typer.Option("--y", help="Metric on the y axis.")] = "ood_mse",
    by: Annotated[
        str | None, typer.Option("--by", help="Setting that defines the lines of the plot: one line per value.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print all finished runs as a tidy table: CSV on standard output, or a file with --save.

    \b
    Example:
      recombine sweep table runs --group --save table.csv
    """
    from recombine import sweeps
    from recombine.core.errors import InputError
    from recombine.runs.damage import damage_lines
    from recombine.runs.store import Store

    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}. Give the folder that a sweep wrote to (its --out).")
    whole = sweeps.table(Store(folder), all_settings=every)
    shown = whole.grouped() if group else whole
    for line in damage_lines(folder, whole.skipped):
        say(f"skipped: {line}", err=True)
    if not whole.rows:
        say(f"note: no run in {folder} is finished.", err=True)
    for path in save or []:
        shown.write(path)
    if plot is not None:
        axis = x or next((name for name in whole.settings if len({str(r[name]) for r in whole.rows}) > 1), "seed")
        draw(whole, plot, axis, y, by)
    if as_json:
        show_json(shown.rows)
    elif not save and plot is None:
        say(shown.to_csv(), nl=False)


def draw(table: Any, path: Path, x: str, y: str, by: str | None) -> None:
    from recombine.plotting.writing import write_figure

    write_figure(table.plot(x, y, by).figure, path)
