"""A copy of a data set that is read row by row: pictures in an .npy file, labels in a .csv file beside it."""

from __future__ import annotations

import csv
import math
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from recombine.core.datasets.source import Source
from recombine.core.datasets.tables import SPLIT
from recombine.core.errors import InputError, StoreError


def unpack(source: Source, target: Path) -> tuple[Path, Path]:
    """Write all pictures, as they are stored, to `target` and their labels next to it, and return the paths.

    Both files appear only when they are complete. Only a few pictures are in memory at a time.
    """
    if target.suffix.lower() != ".npy":
        raise InputError(f"The output must be an .npy file. Got {target}.")
    labels = target.with_suffix(".csv")
    for path in (target, labels):
        if path.exists():
            raise InputError(f"{path} already exists. Choose another name, or delete it.")
    needed = math.prod(source.shape) * source.dtype.itemsize
    folder = next(place for place in target.absolute().parents if place.exists())
    if shutil.disk_usage(folder).free < needed:
        raise InputError(f"The copy needs {needed / 2**30:.1f} GB, which is more than {folder} has free.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as staging:
            _write_pictures(source, Path(staging) / "pictures")
            _write_labels(source, Path(staging) / "labels")
            os.replace(Path(staging) / "labels", labels)
            os.replace(Path(staging) / "pictures", target)
    except OSError as error:
        raise StoreError(f"Could not write {target}: {error.strerror or error}. Choose another folder.") from error
    return target, labels


def _write_pictures(source: Source, path: Path) -> None:
    header = {"descr": npy_format.dtype_to_descr(source.dtype), "fortran_order": False, "shape": source.shape}
    with path.open("wb") as file:
        npy_format.write_array_header_2_0(file, header)
        for block in source.blocks():
            file.write(np.ascontiguousarray(block).data)


def _write_labels(source: Source, path: Path) -> None:
    columns: dict[str, list[Any]] = {}
    for name, column in source.columns.items():
        factor = source.factors.get(name)
        values = None if factor is None else factor.categories or factor.grid().double().tolist()
        columns[name] = [values[place] for place in column.tolist()] if values is not None else column.tolist()
    if source.is_test is not None:
        columns[SPLIT] = ["test" if held else "train" for held in source.is_test.tolist()]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values()))
