"""Shapes3D: `3dshapes.h5` (Burgess and Kim 2018). Needs the extra `h5`.

Arrays `images` (picture, row, column, channel), 0 … 255, and `labels` (picture, factor), the factor values: hue of the
floor, the wall and the object, scale, shape, orientation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from recombine.core.datasets.files import DataFiles
from recombine.core.datasets.labels import inferred
from recombine.core.datasets.rows import FileRows, Rows, check_numbers
from recombine.core.datasets.source import DATASETS, DataPath, Source, rows_of
from recombine.core.errors import InputError
from recombine.core.factors import categorical

FACTORS = ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")
SHAPES = ("cube", "cylinder", "sphere", "pill")
FILTERS = (1, 2, 3, 32000)  # HDF5's deflate, shuffle and checksum, and h5py's own lzf; others would load plug-ins


@DATASETS.register("shapes3d")
def shapes3d(files: DataFiles, file: DataPath) -> Source:
    """Shapes3D from its .h5 file.

    Args:
        files: Opens the file.
        file: Its path.
    """
    path = files.open("file", file)
    images, labels = H5Rows(path, "images"), H5Rows(path, "labels")
    if len(images.shape) != 4 or labels.shape != (images.shape[0], len(FACTORS)):
        raise InputError(
            f"{path} does not have the layout of Shapes3D. Expected images (picture, row, column, channel) and labels "
            f"(picture, {len(FACTORS)}). Got {images.shape} and {labels.shape}."
        )
    values = labels.read(np.arange(len(labels)))
    found = {name: inferred(values[:, i], name) for i, name in enumerate(FACTORS)}
    factors = {name: factor for name, (factor, _) in found.items()}
    shape = factors["shape"]
    if shape.low == 0 and shape.high == shape.size - 1 and shape.size <= len(SHAPES):
        factors["shape"] = categorical(SHAPES[: shape.size])
    return Source(
        columns={name: positions for name, (_, positions) in found.items()},
        rows=rows_of(images.in_file() or images),
        shape=images.shape,
        dtype=images.dtype,
        factors=factors,
        channels="last",
    )


class H5Rows(Rows):
    """Rows of an array in an HDF5 file, which is opened for every reading: handles do not survive a fork.

    Links out of the file, arrays that lie in other files and filters that HDF5 would load as plug-ins are refused.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        with _opened(path) as file:
            found = self._checked(file)
            self.shape, self.dtype = tuple(map(int, found.shape)), found.dtype
            self._offset = found.id.get_offset() if found.chunks is None and found.id.get_storage_size() else None
            stored = found.id.get_storage_size()
        if stored == 0 and np.prod(self.shape) > 0:
            raise InputError(f"{path}: {name!r} was declared but never written. Download the file again.")

    def in_file(self) -> Rows | None:
        """The same rows read without h5py, if they lie in one piece."""
        return None if self._offset is None else FileRows(self.path, self._offset, self.dtype, self.shape)

    def read(self, indices: Int[np.ndarray, " row"]) -> Shaped[np.ndarray, "row ..."]:
        with _opened(self.path) as file:
            array = file[self.name]
            unique, back = np.unique(indices, return_inverse=True)  # h5py takes increasing numbers only
            try:
                rows = array[unique] if len(unique) else np.empty((0, *self.shape[1:]), self.dtype)
            except OSError as error:
                raise InputError(f"{self.path}: {self.name!r} cannot be unpacked. Download the file again.") from error
        return rows[back]

    def _checked(self, file: Any) -> Any:
        import h5py

        if not isinstance(file.get(self.name, getlink=True), h5py.HardLink):
            listed = ", ".join(map(str, file)) or "nothing"
            raise InputError(f"{self.path} contains no array {self.name!r}. It contains {listed}.")
        found = file[self.name]
        if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
            raise InputError(f"{self.path}: {self.name!r} must be stored in the file itself, not in another file.")
        creation = found.id.get_create_plist()
        filters = [creation.get_filter(i)[0] for i in range(creation.get_nfilters())]
        if not set(filters) <= set(FILTERS):
            raise InputError(
                f"{self.path}: {self.name!r} is compressed with the filters {filters}. Use gzip, lzf or no compression."
            )
        check_numbers(found.dtype, f"{self.path}: {self.name!r}")
        return found


def _opened(path: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise InputError("Reading .h5 files requires h5py. Install it with: pip install 'recombine[h5]'.") from error
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        raise InputError(
            f"{path} is not a readable HDF5 file. It is damaged or was not downloaded completely."
        ) from error
