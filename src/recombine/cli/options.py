"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of the run store.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:N or mps.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything and print what would happen, without doing it.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Short for seed=N.")]
Engine = Annotated[
    str, typer.Option("--engine", help="Where jobs run: in-process, processes, ray, or an engine of a plug-in.")
]
Address = Annotated[
    str | None,
    typer.Option("--address", help="Address of the Ray cluster: auto, HOST:PORT, or local to start one here."),
]
SweepFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the sweep (its --out).")]
