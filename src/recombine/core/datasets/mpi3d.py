"""MPI3D: `mpi3d_toy.npz`, `mpi3d_realistic.npz`, `mpi3d_real.npz`, and the complex variant (Gondal et al. 2019).

One array, `images`, with a picture for every combination of the factors in row-major order, either flat, (picture, row,
column, channel), or with an axis per factor. The number of pictures determines the variant.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from recombine.core.datasets.files import DataFiles
from recombine.core.datasets.npy import NpzFile
from recombine.core.datasets.source import DATASETS, DataPath, Source
from recombine.core.errors import InputError
from recombine.core.factors import Factor, categorical, discrete

LABELS = {
    "object_size": ("small", "large"),
    "camera_height": ("top", "center", "bottom"),
    "background_color": ("purple", "sea green", "salmon"),
}
SIMPLE = {
    "object_color": ("white", "green", "red", "blue", "brown", "olive"),
    "object_shape": ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere"),
}
COMPLEX = {
    "object_color": ("yellow", "green", "olive", "red"),
    "object_shape": ("coffee-cup", "tennis-ball", "croissant", "beer-cup"),
}
AXES = ("horizontal_axis", "vertical_axis")
STEPS = 40  # positions along an axis
FACTORS = (*SIMPLE, *LABELS, *AXES)


def is_mpi3d(path: Path, names: tuple[str, ...]) -> bool:
    """Whether an .npz file with arrays of these names has this layout."""
    return set(names) == {"images"}


@DATASETS.register("mpi3d")
def mpi3d(files: DataFiles, file: DataPath) -> Source:
    """MPI3D from its .npz file.

    Args:
        files: Opens the file.
        file: Its path.
    """
    path = files.open("file", file)
    archive = NpzFile(path)
    if "images" not in archive.names:
        raise InputError(
            f"{path} does not have the layout of MPI3D. The array 'images' is missing. It has "
            f"{', '.join(archive.names)}."
        )
    header = archive.header("images")
    if len(header.shape) not in (4, len(FACTORS) + 3):
        raise InputError(
            f"{path} does not have the layout of MPI3D. The axes of images must be picture, row, column, channel, or "
            f"{len(FACTORS)} factors followed by row, column, channel. Got {header.shape}."
        )
    factors = _variant(path, header.shape[:-3])
    sizes = tuple(factor.size for factor in factors.values())
    count = math.prod(sizes)

    positions = np.unravel_index(np.arange(count), sizes)
    shape = (count, *header.shape[-3:])
    return Source(
        columns=dict(zip(factors, positions)),
        rows=lambda chosen: archive.rows("images", chosen, shape),
        stream=lambda: archive.blocks("images", shape),
        shape=shape,
        dtype=header.dtype,
        factors=factors,
        channels="last",
    )


def _variant(path: Path, leading: tuple[int, ...]) -> dict[str, Factor]:
    """The factors, from the number of pictures or from the sizes of the leading axes."""
    simple = [len(labels) for labels in (*SIMPLE.values(), *LABELS.values())] + [STEPS, STEPS]
    complicated = [len(labels) for labels in (*COMPLEX.values(), *LABELS.values())] + [STEPS, STEPS]
    if len(leading) == len(FACTORS):
        sizes = list(leading)
        first = COMPLEX if sizes[:2] == complicated[:2] else SIMPLE
    elif math.prod(leading) == math.prod(simple):
        sizes, first = simple, SIMPLE
    elif math.prod(leading) == math.prod(complicated):
        sizes, first = complicated, COMPLEX
    else:
        raise InputError(
            f"{path} has {math.prod(leading)} pictures, but MPI3D has {math.prod(simple)} and its complex variant "
            f"{math.prod(complicated)}. The file is truncated or is not MPI3D."
        )
    labels = {**first, **LABELS}
    return {
        name: categorical(labels[name][:size]) if size <= len(labels.get(name, ())) else discrete(size)
        for name, size in zip(FACTORS, sizes)
    }
