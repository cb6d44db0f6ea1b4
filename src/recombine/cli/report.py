"""The command `recombine report`: write one HTML page about runs, diagnoses, sweeps and reproduced studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recombine.cli.command import command
from recombine.cli.options import Json
from recombine.cli.output import say, show_json

MOST_VERDICTS = 8  # printed


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("report")(report)


@command
def report(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]PATH...",
            help="Runs (folders or ids), run stores, or folders with a diagnosis or with tables and claims.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="HTML file to write.")] = Path("report.html"),
    runs: Annotated[Path, typer.Option("--out", help="Run store that contains the ids.")] = Path("runs"),
    diagnose: Annotated[bool, typer.Option("--diagnose", help="Diagnose runs that have no diagnosis yet.")] = False,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    max_mb: Annotated[float, typer.Option("--max-mb", help="Maximum size of the page in MB.", min=0.0)] = 20.0,
    models: Annotated[
        int, typer.Option("--models", help="Maximum number of models per store in the explorer.", min=0)
    ] = 5,
    units: Annotated[
        int, typer.Option("--units", help="Maximum number of units per layer in the unit browser.", min=0)
    ] = 64,
    kernel: Annotated[bool, typer.Option("--kernel/--no-kernel", help="Show Gram matrices.")] = True,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Show the figures of claims.")] = True,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page about runs.

    On the page you pick an unseen combination and compare the outputs of all networks. The page works offline in any
    browser. NAME=PATH sets the name of a model.

    \b
    Examples:
      recombine report runs --diagnose -o page.html
      recombine report baseline=runs/3f8e stripes=runs/91c0
    """
    from recombine.core.errors import InputError
    from recombine.report.collect import collect
    from recombine.report.page import check_target, write_report

    if runs.suffix.lower() in (".html", ".htm"):
        raise InputError(f"--out is the run store and --output (-o) is the page. Got --out {runs}; use -o {runs}.")
    check_target(output)
    collected = collect(paths, runs=runs, diagnose=diagnose)
    page = write_report(collected, output, max_mb=max_mb, models=models, units=units, kernel=kernel, figures=figures)
    if open_it:
        typer.launch(output.resolve().as_uri())
    if as_json:
        blocks = {str(block): size / 1e6 for block, size in page.sizes.items()}
        show_json({"page": str(output), "mb": page.megabytes, "blocks_mb": blocks, "notes": page.notes,
                   "models": [model.name for model in collected.models]})  # fmt: skip
        return
    for note in page.notes:
        say(f"note: {note}", err=True)
    for model in collected.models[:MOST_VERDICTS]:
        say(f"{model.name}: {model.diagnosis.verdict}")
    if len(collected.models) > MOST_VERDICTS:
        say(f"… and {len(collected.models) - MOST_VERDICTS} more verdicts on the page.")
    say(f"Wrote {output} ({page.megabytes:.1f} MB). Open it in a browser; it works offline.")
