"""Recognizing the layout of a file by its name and its arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recombine.core.datasets.arrays import is_arrays
from recombine.core.datasets.dsprites import is_dsprites
from recombine.core.datasets.mpi3d import is_mpi3d
from recombine.core.datasets.npy import NpzFile
from recombine.core.datasets.schott import is_schott
from recombine.core.errors import InputError

KNOWN = (
    "dSprites (.npz), MPI3D (.npz), Shapes3D (.h5), split files of Schott et al. (.npz), an .npz file with images and "
    "labels, an .npy file with labels=…, or a folder with labels.csv"
)


def layout_of(path: Path) -> dict[str, Any]:
    """The configuration {"kind": …, …} of the data set at a path."""
    place = path.expanduser().absolute()
    if place.is_dir():
        return {"kind": "folder", "folder": str(place)}
    suffix = place.suffix.lower()
    if suffix in (".h5", ".hdf5"):
        return {"kind": "shapes3d", "file": str(place)}
    if suffix == ".npy":
        return {"kind": "arrays", "images": str(place)}
    if suffix == ".csv":
        return {"kind": "folder", "folder": str(place.parent), "labels": place.name}
    if suffix == ".npz":
        names = NpzFile(place).names
        if is_schott(place, names):
            return {"kind": "schott", "file": str(place)}
        if is_dsprites(place, names):
            return {"kind": "dsprites", "file": str(place)}
        if is_arrays(place, names):
            return {"kind": "arrays", "images": str(place)}
        if is_mpi3d(place, names):
            return {"kind": "mpi3d", "file": str(place)}
        raise InputError(f"{path} has no known layout. Its arrays are {', '.join(names)}. Known: {KNOWN}.")
    if not place.exists():
        raise InputError(f"There is no file {path}.")
    raise InputError(f"{path} has no known layout. Known: {KNOWN}.")
