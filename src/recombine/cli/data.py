"""The commands `recombine data …`: inspect a data set, or unpack it into a file that is read row by row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recombine.cli.command import command
from recombine.cli.options import Json
from recombine.cli.output import say, show_json, show_table

if TYPE_CHECKING:
    from recombine.core.datasets import Dataset

data_app = typer.Typer(help="Inspect or unpack data sets.", no_args_is_help=True)
Place = Annotated[str, typer.Argument(metavar="FILE", help="A file or folder in a known layout.")]
Settings = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...", help='Settings of scene.data, for example labels=labels.npy names=["x","y"].'
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(data_app, name="data")


@data_app.command("show")
@command
def show(
    file: Place,
    settings: Settings = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="File for the contact sheet; default: FILE.png.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the factors of a data set and draw a contact sheet.

    keep.FACTOR=… selects a part of the data set, as scene.keep does: positions [0,2,4], a slice 0:40:4, or labels.

    \b
    Examples:
      recombine data show pictures
      recombine data show dsprites.npz keep.orientation=0:40:4 --figure sheet.png
    """
    from recombine.core.datasets import open_dataset

    given = _settings(file, settings or [])
    keep = given.pop("keep", {})
    dataset = open_dataset(given, keep=keep)
    target = figure or Path(f"{Path(file).resolve().stem}.png")
    _draw(dataset, target)
    facts = {**_facts(dataset), "figure": str(target)}
    if as_json:
        show_json(facts)
        return
    shape = " × ".join(map(str, dataset.picture_shape))
    say(f"{facts['layout']}: {len(dataset)} pictures, {shape}, {facts['dtype']} divided by {dataset.scale:g}")
    for role, sha256 in dataset.sha256.items():
        say(f"sha256 of {role}: {sha256}")
    say("")
    show_table(facts["factors"], ["factor", "kind", "size", "values"])
    say("")
    say(_cells_line(facts))
    for name, label in dataset.fixed.items():
        say(f"{name} is {label} in all pictures, so it is not a factor.")
    say(f"Wrote the contact sheet to {target}.")


@data_app.command("unpack")
@command
def unpack_file(
    file: Place,
    out: Annotated[Path, typer.Argument(metavar="OUT.npy", help="File for the pictures; the labels go to OUT.csv.")],
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Unpack a compressed data set into a file that is read from disk row by row.
    The file is as large as all pictures together.

    \b
    Example:
      recombine data unpack images.npz unpacked.npy
    """
    from recombine.core.datasets import DATASETS
    from recombine.core.datasets.files import DataFiles
    from recombine.core.datasets.unpack import unpack

    pictures, labels = unpack(DATASETS.build(_settings(file, settings or []), DataFiles()), out)
    data = {"kind": "arrays", "images": str(pictures.resolve()), "labels": str(labels.resolve())}
    if as_json:
        show_json({"images": str(pictures), "labels": str(labels), "data": data})
        return
    say(f"Wrote the pictures to {pictures} and their labels to {labels}. To train on them, set scene.kind=images and")
    say(f"  scene.data.kind=arrays scene.data.images={pictures} scene.data.labels={labels}")


def _settings(file: str, words: list[str]) -> dict[str, Any]:
    """The configuration of the data set at a path, with KEY=VALUE overrides applied."""
    from recombine.core.datasets.layouts import layout_of
    from recombine.core.errors import InputError
    from recombine.core.words import plain_value

    config = layout_of(Path(file))
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InputError(f"Expected key=value, for example labels=labels.npy. Got {word!r}.")
        group, _, name = key.partition(".")
        if name:
            config.setdefault(group, {})[name] = plain_value(value)
        else:
            config[key] = plain_value(value)
    return config


def _facts(dataset: Dataset) -> dict[str, Any]:
    counts = dataset.counts[dataset.counts > 0]
    factors = [
        {"factor": name, "kind": factor.kind, "size": factor.size, "values": _values(factor.labels)}
        for name, factor in dataset.space.factors.items()
    ]
    return {
        "layout": dataset.config["kind"],
        "pictures": len(dataset),
        "picture_shape": list(dataset.picture_shape),
        "dtype": str(dataset.source.dtype),
        "scale": dataset.scale,
        "sha256": dataset.sha256,
        "keep": dataset.keep,
        "factors": factors,
        "fixed": dataset.fixed,
        "cells": len(dataset.space),
        "unavailable": int((dataset.counts == 0).sum()),
        "pictures_per_cell": [int(counts.min()), int(counts.max())],
        "test_pictures": None if dataset.is_test is None else int(dataset.is_test.sum()),
        "held_out_cells": None if dataset.test_cells is None else int(dataset.test_cells.sum()),
    }


def _values(labels: tuple[str, ...], most: int = 8) -> str:
    return ", ".join(labels) if len(labels) <= most else f"{', '.join(labels[: most - 1])}, … {labels[-1]}"


def _cells_line(facts: dict[str, Any]) -> str:
    low, high = facts["pictures_per_cell"]
    each = f"{low} picture{'s' * (low > 1)} each" if low == high else f"{low} to {high} pictures each"
    missing = f", {facts['unavailable']} of them unavailable" if facts["unavailable"] else ""
    split = ""
    if facts["test_pictures"] is not None:
        split = (
            f" The data set defines a split with {facts['test_pictures']} test pictures. holdout.kind=data "
            f"holds out the {facts['held_out_cells']} cells that occur only in the test pictures."
        )
    return f"{facts['cells']} cells{missing}, {each}.{split}"


def _draw(dataset: Dataset, target: Path) -> None:
    from recombine.plotting.contact_sheet import contact_sheet
    from recombine.plotting.writing import write_figure

    write_figure(contact_sheet(dataset), target)
