"""Pictures and labels in memory: arrays, tensors, or a map-style `torch.utils.data.Dataset`.

A configuration identifies them by their checksum, and can be rebuilt while the program that created them runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from jaxtyping import Int, Shaped

from recombine.core.datasets.files import DataFile, DataFiles
from recombine.core.datasets.labels import as_array, columns_of
from recombine.core.datasets.rows import MemoryRows, Rows, check_numbers
from recombine.core.datasets.source import DATASETS, Channels, Source, rows_of
from recombine.core.datasets.tables import parts
from recombine.core.errors import InputError

ROLE = "content"
_held: WeakValueDictionary[str, Source] = WeakValueDictionary()  # by checksum


@DATASETS.register("memory")
def memory(files: DataFiles) -> Source:
    """The pictures with the recorded checksum, if this program still has them in memory."""
    sha256 = (files.recorded or {}).get(ROLE)
    source = None if sha256 is None else _held.get(sha256)
    if source is None:
        raise InputError(
            "This run was trained on arrays of a Python program, which are no longer in memory. Create its task "
            "again from the same arrays with rc.Task.from_arrays. Runs trained on files can be loaded without this "
            "step."
        )
    files.opened[ROLE] = DataFile(Path(), str(sha256), 0)
    return source


def source_of(
    images: Any,
    labels: Any = None,
    *,
    names: list[str] | None = None,
    split: Any = None,
    channels: Channels | None = None,
    scale: float | None = None,
) -> tuple[Source, str]:
    """A source of pictures in memory, and its checksum.

    Args:
        images: An array or tensor (picture, …), or a map-style data set that yields (picture, labels).
        labels: See `columns_of`; None for a data set.
        names: Names for unnamed columns of labels.
        split: For each picture "train" or "test", or true for the test part.
        channels, scale: As in `Source`.
    """
    if isinstance(images, torch.Tensor | np.ndarray):
        array = images.detach().cpu().numpy() if isinstance(images, torch.Tensor) else images
        rows: Rows = MemoryRows(array)
    elif hasattr(images, "__getitem__") and hasattr(images, "__len__") and labels is None:
        rows = DatasetRows(images)
        labels = rows.labels
    else:
        raise InputError(
            "Pictures must be an array, a tensor or the path of a file, or a map-style data set that yields "
            f"(picture, labels). Got {type(images).__name__}."
        )
    if labels is None:
        raise InputError("Pictures need labels: an array (picture, factor), or a mapping factor → labels.")
    check_numbers(rows.dtype, "Pictures")
    named = names is not None or isinstance(labels, Mapping) or hasattr(labels, "columns")
    if named:
        columns = columns_of(labels, names)
    else:
        table = as_array(labels)
        columns = columns_of(table, [str(i) for i in range(table.shape[1] if table.ndim == 2 else 1)], named=False)
    is_test = None if split is None else parts(np.asarray(split), "The split")
    source = Source(
        columns, rows_of(rows), rows.shape, rows.dtype, channels=channels, scale=scale, is_test=is_test, named=named
    )
    return source, remember(source, rows)


def remember(source: Source, rows: Rows) -> str:
    """Register a source by the checksum of its pictures and labels, which is returned."""
    total = hashlib.sha256(repr((rows.shape, rows.dtype.str, tuple(source.columns))).encode())
    for column in (*source.columns.values(), *([] if source.is_test is None else [source.is_test])):
        total.update(repr((column.dtype.str, column.shape)).encode())
        total.update(np.ascontiguousarray(column).tobytes())
    for start in range(0, len(rows), rows.block):
        total.update(np.ascontiguousarray(rows.read(np.arange(start, min(start + rows.block, len(rows))))).tobytes())
    sha256 = total.hexdigest()
    _held[sha256] = source
    return sha256


class DatasetRows(Rows):
    """Pictures of a map-style data set that yields (picture, labels), loaded on demand.

    Attributes:
        labels: Of all pictures, (picture, factor) or factor → column.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        if len(dataset) == 0:
            raise InputError("The data set is empty.")
        entries = [self._entry(index) for index in range(len(dataset))]
        first = entries[0][0]
        self.shape, self.dtype = (len(entries), *first[0]), first[1]
        for index, (facts, _) in enumerate(entries):
            if facts != first:
                raise InputError(
                    f"All pictures must have the same shape and type. Picture 0 has {first}, picture {index} has "
                    f"{facts}."
                )
        labels = [label for _, label in entries]
        if isinstance(labels[0], Mapping):
            self.labels: Any = {name: np.array([label[name] for label in labels]) for name in labels[0]}
        else:
            self.labels = np.array([np.asarray(label) for label in labels])

    def _entry(self, index: int) -> tuple[tuple[tuple[int, ...], np.dtype], Any]:
        entry = self.dataset[index]
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise InputError(f"The data set must yield (picture, labels). Got {type(entry).__name__} at index {index}.")
        picture = np.asarray(entry[0])
        return (picture.shape, picture.dtype), entry[1]

    def read(self, indices: Int[np.ndarray, " row"]) -> Shaped[np.ndarray, "row ..."]:
        if not len(indices):
            return np.empty((0, *self.shape[1:]), self.dtype)
        return np.stack([np.asarray(self.dataset[int(index)][0]) for index in indices])
