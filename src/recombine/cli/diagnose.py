"""The command `recombine diagnose`: diagnose a stored run or your own model."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recombine.cli.command import command
from recombine.cli.options import Budget, Cells, Json, Out, PartSettings, comma_separated, request_fields
from recombine.cli.output import say, show_json

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

FIELDS = ("model", "space", "encode", "holdout", "target", "output")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("diagnose")(diagnose)


@command
def diagnose(
    what: Annotated[
        str, typer.Argument(metavar="RUN|FILE.py:FUNCTION", help="Id of a run, or a function that returns a model.")
    ],
    out: Out = Path("runs"),
    layers: Annotated[
        list[str] | None,
        typer.Option("--layers", help='Comma-separated layers or patterns, e.g. "layers.*.act"; default: all.'),
    ] = None,
    parts: Annotated[
        list[str] | None, typer.Option("--parts", help="Comma-separated parts to compute; default: all.")
    ] = None,
    geometry: Annotated[str, typer.Option("--geometry", help='"exact", "finite difference" or "both".')] = "exact",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random numbers.")] = 0,
    budget: Budget = None,
    draws: Annotated[int, typer.Option("--draws", help="Number of samples to draw from a generative model.")] = 1,
    save: Annotated[Path | None, typer.Option("--save", help="Save the tables and arrays in this folder.")] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Save a figure of every part in this folder.")
    ] = None,
    cells: Cells = None,
    settings: PartSettings = None,
    as_json: Json = False,
) -> None:
    """Find out what a model does with unseen combinations.

    The verdict describes how the model fails, and the parts show where in the network it fails. The diagnosis of a run
    is also stored in the folder of the run. FILE.py:FUNCTION imports the file, which executes its code, and calls the
    function. The function returns a dict or an object with model and space, and optionally encode, holdout, target and
    output.

    \b
    Examples:
      recombine diagnose 3f8e --figures figures
      recombine diagnose mine.py:model --parts superposition,geometry --json
    """
    options: dict[str, Any] = {"geometry": comma_separated([geometry]), "seed": seed, "draws": draws}
    names = {"layers": layers, "parts": parts}
    options |= {name: comma_separated(given) for name, given in names.items() if given is not None}
    options |= request_fields(budget, cells, settings)
    _check_folders({"--save": save, "--figures": figures})
    with redirect_stdout(sys.stderr):  # user code may print; standard output is reserved for the result
        found = _own(what, options) if ":" in what else _run(what, out, options, keep=None if save else True)
    if save is not None:
        found.save(save)
    drawn = [] if figures is None else _draw(found, figures)
    if as_json:
        show_json(found.to_json())
        return
    say(str(found))
    if drawn:
        say(f"\nWrote the figures {', '.join(map(str, drawn))}.")


def _check_folders(folders: dict[str, Path | None]) -> None:
    """Raise before computing anything if a folder cannot be written to."""
    from recombine.core.errors import InputError

    for option, folder in folders.items():
        if folder is not None:
            nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
            if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
                what = "is not writable" if nearest.is_dir() else "is a file"
                raise InputError(f"{option} must be a writable folder, but {nearest} {what}. Choose another folder.")


def _run(run: str, out: Path, options: dict[str, Any], *, keep: bool | None) -> Diagnosis:
    from recombine.runs.store import Store

    return Store(out).load(run).diagnose(keep=keep, **options)


def _own(what: str, options: dict[str, Any]) -> Diagnosis:
    from recombine.diagnostics.diagnose import diagnose as diagnose_model

    given = _loaded(what)
    model, space, encode, holdout = (given[name] for name in FIELDS[:4])
    found = diagnose_model(model, space, encode, holdout, target=given["target"], output=given["output"], **options)
    return replace(found, source={"function": what})


def _loaded(what: str) -> dict[str, Any]:
    """Import the user's file, call the function, and return its result as a dict."""
    from recombine.core.errors import InputError, RecombineError
    from recombine.core.factors import FactorSpace

    name, _, function = what.rpartition(":")
    path = Path(name)
    if path.suffix != ".py" or not path.is_file():
        raise InputError(f"There is no Python file {name!r}. Give the id of a run or FILE.py:FUNCTION.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))  # so that the file can import modules next to it
    try:
        spec.loader.exec_module(module)
        if not callable(getattr(module, function, None)):
            raise InputError(f"{path} has no function {function!r}.")
        made = getattr(module, function)()
    except RecombineError:
        raise
    except (Exception, SystemExit) as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f" (line {where.lineno} of {Path(where.filename).name})" if where.filename != __file__ else ""
        raise InputError(
            f"{path}: {type(error).__name__}: {error}{place}. recombine imports the file and calls {function}() "
            "without arguments."
        ) from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    given = {key: made.get(key) if isinstance(made, Mapping) else getattr(made, key, None) for key in FIELDS}
    unknown = [key for key in made if key not in FIELDS] if isinstance(made, Mapping) else []
    if unknown or given["model"] is None or not isinstance(given["space"], FactorSpace):
        raise InputError(
            f"{what} must return a dict or an object with model and space (a FactorSpace), and optionally encode, "
            "holdout, target and output. "
            f"Got {', '.join(map(str, made)) if isinstance(made, Mapping) else type(made).__name__}."
        )
    return given


def _draw(found: Diagnosis, folder: Path) -> list[Path]:
    """Draw every part that has a figure."""
    from recombine.core.errors import RecombineError, StoreError
    from recombine.plotting.writing import write_figure

    drawn = []
    for name, part in found.parts.items():
        if part.computed:
            try:
                write_figure(found.plot(name), folder / f"{name}.png")
                drawn.append(folder / f"{name}.png")
            except StoreError:
                raise
            except RecombineError as error:
                say(f"could not draw {name}: {error}", err=True)
    return drawn
