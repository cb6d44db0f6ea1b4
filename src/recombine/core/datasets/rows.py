"""Arrays with a row per picture, of which only the requested rows are read.

    FileRows(path, offset, dtype, shape)      # a piece of a file: an .npy file, a member of an .npz file
    MemoryRows(array)                         # an array in memory

All give `rows.shape` (row, …), `rows.dtype` and `rows.read(indices)`.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
from jaxtyping import Int, Shaped

from recombine.core.datasets.files import open_regular
from recombine.core.errors import InputError

KINDS = "biuf"  # of numpy: truth values, integers, floating point
BLOCK_BYTES = 2**24  # about how much is read at a time where an order may be chosen


class Rows(ABC):
    """An array (row, …) that is read row by row.

    Attributes:
        shape: Number of rows, then the shape of one.
        dtype: Of the numbers as they are stored.
    """

    shape: tuple[int, ...]
    dtype: np.dtype

    @abstractmethod
    def read(self, indices: Int[np.ndarray, " row"]) -> Shaped[np.ndarray, "row ..."]:
        """The rows with these numbers, in this order, as a new array."""

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def block(self) -> int:
        """Number of rows to read at a time when all rows are read."""
        return max(1, BLOCK_BYTES // max(1, self.row_bytes))


class MemoryRows(Rows):
    """Rows of an array, in memory or mapped by NumPy."""

    def __init__(self, array: Shaped[np.ndarray, "row ..."]) -> None:
        self.array = array
        self.shape, self.dtype = array.shape, array.dtype

    def read(self, indices: Int[np.ndarray, " row"]) -> Shaped[np.ndarray, "row ..."]:
        return np.asarray(self.array[indices])


class FileRows(Rows):
    """Rows that lie one after the other in a file.

    They are read with `pread` and not mapped: a file that is truncated while it is in use is an error, not a bus error,
    and pages that were read do not count as the process's memory.

    Args:
        path: A regular file.
        offset: Byte at which the first row begins.
        dtype: Of the numbers.
        shape: (row, …), in C order.
    """

    def __init__(self, path: Path, offset: int, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self.path, self.offset, self.dtype, self.shape = path, offset, dtype, shape
        self._descriptor: int | None = None

    def read(self, indices: Int[np.ndarray, " row"]) -> Shaped[np.ndarray, "row ..."]:
        if self._descriptor is None:
            self._descriptor = open_regular(self.path)
        rows = np.empty((len(indices), *self.shape[1:]), self.dtype)
        into = rows.reshape(-1).view(np.uint8).data if rows.size else memoryview(b"")
        breaks = np.flatnonzero(np.diff(indices) != 1) + 1  # runs of neighbours are read at once
        for run in np.split(np.arange(len(indices)), breaks):
            if len(run):
                first, last = int(run[0]), int(run[-1]) + 1
                self._fill(into[first * self.row_bytes : last * self.row_bytes], int(indices[first]))
        return rows

    def _fill(self, into: memoryview, row: int) -> None:
        assert self._descriptor is not None
        position, done = self.offset + row * self.row_bytes, 0
        while done < len(into):
            got = os.preadv(self._descriptor, [into[done:]], position + done)
            if got == 0:
                raise InputError(
                    f"{self.path} was truncated while it was in use. It ends before row {row}. Restore the file."
                )
            done += got

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_descriptor": None}  # a descriptor means nothing in another process

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            os.close(self._descriptor)  # pyright: ignore[reportArgumentType]


class ChosenRows(Rows):
    """Some rows of others."""

    def __init__(self, rows: Rows, chosen: Int[np.ndarray, " row"]) -> None:
        self.rows, self.chosen = rows, chosen
        self.shape, self.dtype = (len(chosen), *rows.shape[1:]), rows.dtype

    def read(self, indices: Int[np.ndarray, " row"]) -> Shaped[np.ndarray, "row ..."]:
        return self.rows.read(self.chosen[indices])


class JoinedRows(Rows):
    """Rows of several arrays, one after the other."""

    def __init__(self, parts: list[Rows]) -> None:
        first = parts[0]
        for part in parts:
            if part.shape[1:] != first.shape[1:] or part.dtype != first.dtype:
                raise InputError(
                    f"All pictures of a data set must have the same shape and type. Got {part.shape[1:]} of "
                    f"{part.dtype} and {first.shape[1:]} of {first.dtype}."
                )
        self.parts = parts
        self.shape, self.dtype = (sum(map(len, parts)), *first.shape[1:]), first.dtype

    def read(self, indices: Int[np.ndarray, " row"]) -> Shaped[np.ndarray, "row ..."]:
        rows = np.empty((len(indices), *self.shape[1:]), self.dtype)
        start = 0
        for part in self.parts:
            here = (indices >= start) & (indices < start + len(part))
            rows[here] = part.read(indices[here] - start)
            start += len(part)
        return rows


def check_numbers(dtype: np.dtype, what: str) -> None:
    """Reject arrays of anything but plain numbers: Python objects would be a pickle, which is never read."""
    if dtype.kind not in KINDS or dtype.hasobject:
        raise InputError(f"{what} must contain numbers. Got entries of type {dtype}.")
