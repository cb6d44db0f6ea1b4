"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of the run store.")]
Device = Annotated[str, typer.Option("--device", help="Device: auto, cpu, cuda, cuda:N or mps.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check the input and print what would be done, without doing it.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the run; the same as seed=N.")]
Engine = Annotated[
    str, typer.Option("--engine", help="Where jobs run: in-process, processes, ray, or an engine from a plug-in.")
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", help="Address of the Ray cluster: auto, HOST:PORT, or local to start one on this machine."
    ),
]
MaxParallel = Annotated[
    int | None, typer.Option("--max-parallel", help="Maximum number of jobs at a time; default: as many as fit.")
]
AnyVersion = Annotated[bool, typer.Option("--any-version", help="Allow a folder that contains runs of other versions.")]
Budget = Annotated[
    float | None,
    typer.Option("--budget", help="Approximate CPU seconds that each diagnostic part may spend on searches."),
]
Cells = Annotated[list[str] | None, typer.Option("--cells", help="Comma-separated OOD cells whose pictures to store.")]
PartSettings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Setting of a diagnostic part, such as brightness.bins=20. May be repeated."),
]
SweepFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the sweep (its --out).")]


def comma_separated(given: Iterable[str]) -> list[str]:
    """The words of an option that may be repeated and takes several words at once."""
    return [word.strip() for words in given for word in words.split(",") if word.strip()]


def request_fields(budget: float | None, cells: list[str] | None, settings: list[str] | None) -> dict[str, Any]:
    """The fields of a `DiagnosisRequest` that --budget, --cells and --set define."""
    found: dict[str, Any] = {}
    if budget is not None:
        found["budget"] = budget
    if cells is not None:
        found["pictures"] = [_cell(word) for word in comma_separated(cells)]
    for word in settings or ():
        part, setting, value = _setting(word)
        found.setdefault("settings", {}).setdefault(part, {})[setting] = value
    return found


def _setting(word: str) -> tuple[str, str, Any]:
    from recombine.core.errors import InputError
    from recombine.core.words import plain_value

    key, _, value = word.partition("=")
    part, _, setting = key.strip().partition(".")
    if not (part and setting and value):
        raise InputError(f"--set must be PART.SETTING=VALUE, such as brightness.bins=20. Got {word!r}.")
    return part, setting, plain_value(value)


def _cell(word: str) -> int:
    from recombine.core.errors import InputError

    if not (word.isdecimal() and len(word) <= 18):
        raise InputError(f"--cells must be a list of cell numbers such as 12,40. Got {word!r}.")
    return int(word)
