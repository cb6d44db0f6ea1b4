"""Pictures and labels in NumPy files of any content: .npy files, or one .npz file with `images` and `labels`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from recombine.core.datasets.files import DataFiles
from recombine.core.datasets.labels import columns_of
from recombine.core.datasets.npy import NpzFile, npy_rows
from recombine.core.datasets.source import DATASETS, Channels, DataPath, OptionalDataPath, Source, rows_of
from recombine.core.datasets.tables import parts, read_labels
from recombine.core.errors import InputError
from recombine.core.registry import Positive


def is_arrays(path: Path, names: tuple[str, ...]) -> bool:
    """Whether an .npz file with arrays of these names has this layout."""
    return {"images", "labels"} <= set(names)


@DATASETS.register("arrays")
def arrays(
    files: DataFiles,
    images: DataPath,
    labels: OptionalDataPath = None,
    split: OptionalDataPath = None,
    names: list[str] | None = None,
    channels: Channels | None = None,
    scale: Positive | None = None,
) -> Source:
    """Pictures and labels from NumPy files.

    Args:
        files: Opens the files.
        images: Path of an .npy file (picture, …), or of an .npz file that contains `images` and `labels`.
        labels: Path of an .npy file (picture,) or (picture, factor), or of a .csv file with a column per factor. A
            column `split` of a .csv file with the words train and test defines the split of the data set.
        split: Path of an .npy file (picture,), true for pictures of the test part.
        names: Names of the columns of labels in an .npy file; also given by the names of `scene.factors`.
        channels: Whether colour channels come "first" or "last"; by default determined from their number (1, 3 or 4).
        scale: Stored numbers are divided by this. By default 255 for bytes (1 if they are only 0 and 1), 65535 for two
            bytes, and 1 for truth values and floating point.
    """
    path = files.open("images", images)
    archive = NpzFile(path) if path.suffix.lower() == ".npz" else None
    is_test = None
    if labels is not None:
        given, is_test = read_labels(files.open("labels", labels))
    elif archive is not None and "labels" in archive.names:
        given = archive.read("labels")
    else:
        raise InputError(
            "Pictures need labels. Give labels=FILE.npy or labels=FILE.csv together with images.", "labels"
        )
    if split is not None:
        rows = npy_rows(files.open("split", split))
        is_test = parts(rows.read(np.arange(len(rows))), split)
    columns, named = _columns(given, names)
    common: dict[str, Any] = {"channels": channels, "scale": scale, "is_test": is_test, "named": named}
    if archive is None:
        rows = npy_rows(path)
        return Source(columns, rows_of(rows), rows.shape, rows.dtype, **common)
    if "images" not in archive.names:
        raise InputError(f"{path} has no array 'images'. It has {', '.join(archive.names)}.")
    header = archive.header("images")
    return Source(
        columns,
        lambda chosen: archive.rows("images", chosen),
        header.shape,
        header.dtype,
        stream=lambda: archive.blocks("images"),
        **common,
    )


def _columns(given: dict[str, np.ndarray] | np.ndarray, names: list[str] | None) -> tuple[dict[str, np.ndarray], bool]:
    """Labels by column, and whether the columns have names."""
    if isinstance(given, np.ndarray) and names is None:
        count = 1 if given.ndim == 1 else given.shape[-1]
        return columns_of(given, [str(i) for i in range(count)], named=False), False
    return columns_of(given, names), True
