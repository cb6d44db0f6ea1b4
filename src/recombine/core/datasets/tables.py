"""Labels in files: a CSV file with a column per factor, or an .npy array."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Shaped

from recombine.core.datasets.files import open_regular
from recombine.core.datasets.npy import npy_rows
from recombine.core.errors import InputError

SPLIT = "split"  # the column of a CSV file with the split of the data set
PARTS = {"train": False, "test": True}
MOST_BYTES = 2**31


def read_csv(path: Path) -> dict[str, Shaped[np.ndarray, " row"]]:
    """The columns of a CSV file with a header line, as texts."""
    with os.fdopen(open_regular(path), encoding="utf-8-sig", newline="") as file:
        if os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise InputError(
                f"{path} has more than {MOST_BYTES} bytes, which is too large for a text file of labels. Use an .npy "
                "file."
            )
        try:
            header, *rows = [row for row in csv.reader(file, strict=True) if row]
        except (ValueError, csv.Error) as error:  # no line at all, or bytes that are no text
            raise InputError(f"{path} is not a CSV file with a header and one line per picture: {error}.") from error
    names = [name.strip() for name in header]
    if len(set(names)) != len(names) or not all(names):
        raise InputError(f"The first line of {path} must contain distinct column names. Got {header}.")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise InputError(f"Line {number} of {path} has {len(row)} entries, but the header has {len(names)}.")
    if not rows:
        raise InputError(f"{path} has a header but no labels.")
    return {name: np.array([row[i].strip() for row in rows]) for i, name in enumerate(names)}


def read_labels(path: Path) -> tuple[dict[str, np.ndarray] | np.ndarray, Bool[np.ndarray, " row"] | None]:
    """Labels from a .csv or .npy file, and the split if there is a column of that name."""
    if path.suffix.lower() == ".csv":
        columns = read_csv(path)
        split = columns.pop(SPLIT, None)
        return columns, None if split is None else parts(split, f"Column {SPLIT!r} of {path}")
    rows = npy_rows(path)
    return rows.read(np.arange(len(rows))), None


def parts(split: Shaped[np.ndarray, " row"], what: str) -> Bool[np.ndarray, " row"]:
    """True for pictures of the test part, from the words train and test or from truth values."""
    if split.ndim == 1 and split.dtype.kind in "biu" and np.isin(split, (0, 1)).all():
        return split.astype(bool)
    words = [str(word).strip().lower() for word in split.tolist()] if split.ndim == 1 else [""]
    strange = sorted(set(words) - set(PARTS))
    if strange:
        raise InputError(
            f"{what} must contain train or test for every picture, or true for test pictures. Got "
            f"{', '.join(map(repr, strange[:5]))}."
        )
    return np.array([PARTS[word] for word in words])
