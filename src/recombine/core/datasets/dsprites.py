"""dSprites: `dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz` (Matthey et al. 2017).

Arrays `imgs` (picture, row, column), 0 or 1; `latents_classes` and `latents_values` (picture, factor) with factors
colour, shape, scale, orientation, x, y. The file also carries a pickle, `metadata`, which is never read.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from recombine.core.datasets.files import DataFiles
from recombine.core.datasets.npy import NpzFile
from recombine.core.datasets.source import DATASETS, DataPath, Source
from recombine.core.errors import InputError
from recombine.core.factors import Factor, categorical, cyclic, discrete

FACTORS = ("colour", "shape", "scale", "orientation", "x", "y")
SHAPES = ("square", "ellipse", "heart")
ARRAYS = ("imgs", "latents_classes", "latents_values")


def is_dsprites(path: Path, names: tuple[str, ...]) -> bool:
    """Whether an .npz file with arrays of these names has this layout."""
    return set(ARRAYS) <= set(names)


@DATASETS.register("dsprites")
def dsprites(files: DataFiles, file: DataPath, drop_repeated: bool = False) -> Source:
    """dSprites from its .npz file.

    Args:
        files: Opens the file.
        file: Its path.
        drop_repeated: Omit the last orientation, which is a full turn and shows the same picture as the first. The
            orientation is then cyclic.
    """
    path = files.open("file", file)
    archive = NpzFile(path)
    missing = [name for name in ARRAYS if name not in archive.names]
    if missing:
        raise InputError(
            f"{path} does not have the layout of dSprites. These arrays are missing: {', '.join(missing)}. It has "
            f"{', '.join(archive.names)}."
        )
    header = archive.header("imgs")
    classes, values = archive.read("latents_classes"), archive.read("latents_values")
    for name, found in (("latents_classes", classes), ("latents_values", values)):
        if found.shape != (header.shape[0], len(FACTORS)):
            raise InputError(
                f"{path}: {name} must have one row per picture and {len(FACTORS)} columns, {(header.shape[0], 6)}. "
                f"Got {found.shape}."
            )
    factors = {name: _factor(name, classes[:, i], values[:, i], path) for i, name in enumerate(FACTORS)}
    source = Source(
        columns={name: classes[:, i] for i, name in enumerate(FACTORS)},
        rows=lambda chosen: archive.rows("imgs", chosen),
        stream=lambda: archive.blocks("imgs"),
        shape=header.shape,
        dtype=header.dtype,
        factors=factors,
        scale=1.0,
    )
    turn = factors["orientation"]
    if not drop_repeated or not math.isclose(turn.high - turn.low, 2 * math.pi, rel_tol=1e-6):
        return source
    factors = {**factors, "orientation": cyclic(2 * math.pi, turn.size - 1, low=turn.low)}
    return replace(source.only(np.flatnonzero(source.columns["orientation"] < turn.size - 1)), factors=factors)


def _factor(name: str, classes: np.ndarray, values: np.ndarray, path: Path) -> Factor:
    """A factor from its classes 0, 1, … and the value of each."""
    size = int(classes.max()) + 1 if len(classes) else 0
    if len(classes) == 0 or classes.min() < 0 or classes.dtype.kind not in "iu" or size > len(classes):
        raise InputError(
            f"{path}: the classes of {name!r} must be integers starting at 0. The file is damaged or is not dSprites."
        )
    by_class = np.full(size, np.nan)
    by_class[classes] = values
    if not (np.diff(by_class) > 0).all() or not (by_class[classes] == values).all():
        raise InputError(
            f"{path}: the values of {name!r} do not match its classes. The file is damaged or is not dSprites."
        )
    if name == "shape" and size <= len(SHAPES):
        return categorical(SHAPES[:size])
    if name == "colour":
        return categorical(["white"] if size == 1 else [f"colour {i}" for i in range(size)])
    return discrete(by_class.tolist())
