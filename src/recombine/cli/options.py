"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of the run store.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:N or mps.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything and say what would happen; change nothing.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Short for seed=N.")]
Engine = Annotated[str, typer.Option("--engine", help="Where jobs run: in-process, processes, ray or a plug-in's.")]
Address = Annotated[
    str | None, typer.Option("--address", help="Of a Ray cluster: auto, HOST:PORT, or local to start one here.")
]
SweepFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the sweep: its --out.")]
