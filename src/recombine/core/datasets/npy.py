"""NumPy files: .npy, and members of .npz. Nothing in them is ever executed: object arrays are rejected.

An .npy file, and an uncompressed member of an .npz file, is read in place, row by row. A compressed member can only be
read from its beginning to its end: it is streamed, and only the requested rows are kept.
"""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
from jaxtyping import Int, Shaped
from numpy.lib import format as npy_format

from recombine.core.datasets.files import open_regular
from recombine.core.datasets.rows import BLOCK_BYTES, ChosenRows, FileRows, MemoryRows, Rows, check_numbers
from recombine.core.errors import InputError
from recombine.core.memory import available_memory

ZIP_BEGINS = b"PK\x03\x04"
LOCAL_HEADER = struct.Struct("<4s5H3L2H")  # of a zip member: signature, …, length of the name, length of the extras
MOST_DEFLATED = 1032  # largest number of bytes per byte of a deflate stream, with some extra for short ones
MOST_HEADER = 2**16
DAMAGED = "It is damaged or was not downloaded completely. Download it again."


@dataclass(frozen=True)
class ArrayHeader:
    """The content of an .npy header."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    size: int  # bytes of the header itself

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: io.BufferedIOBase, what: str) -> ArrayHeader:
    """The header at the beginning of a stream. Raises an error if there is none, or if it does not declare numbers."""
    try:
        version = npy_format.read_magic(file)
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        shape, fortran, dtype = read(file, max_header_size=MOST_HEADER)
    except (ValueError, EOFError, zlib.error, zipfile.BadZipFile, SyntaxError) as error:
        raise InputError(f"{what} is not a NumPy array: {_first_line(error)}. {DAMAGED}") from error
    if dtype.hasobject:
        raise InputError(
            f"{what} is a pickled object array, which is never loaded, because a pickle can run code. Save numbers: "
            "np.unique(labels, return_inverse=True)[1] for labels; or save texts to a .csv file, labels=labels.csv."
        )
    check_numbers(dtype, what)
    if any(size < 0 for size in shape):
        raise InputError(f"{what} declares the shape {shape}. {DAMAGED}")
    return ArrayHeader(tuple(map(int, shape)), dtype, fortran, file.tell())


def npy_rows(path: Path) -> Rows:
    """The rows of an .npy file, read from it where they are needed."""
    with os.fdopen(open_regular(path), "rb") as file:
        header = read_header(file, str(path))
        size = os.fstat(file.fileno()).st_size
    if size != header.size + header.nbytes:
        raise InputError(
            f"{path} has {size} bytes, but its header declares {'×'.join(map(str, header.shape))} numbers of type "
            f"{header.dtype}, {header.size + header.nbytes} bytes in total. {DAMAGED}"
        )
    return _laid_out(path, header.size, header)


def _laid_out(path: Path, offset: int, header: ArrayHeader) -> Rows:
    """Rows at a place of a file; in Fortran order a row is spread over the file, so NumPy's mapping reads it."""
    if header.fortran and len(header.shape) > 1:
        return MemoryRows(np.memmap(path, header.dtype, "r", offset, header.shape, "F"))
    return FileRows(path, offset, header.dtype, header.shape or (1,))


class NpzFile:
    """The members of an .npz file, by name.

    Args:
        path: A regular file.

    Raises:
        InputError: If it is not a zip file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as archive:
            self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    def is_compressed(self, name: str) -> bool:
        return self._members[name].compress_type != zipfile.ZIP_STORED

    def header(self, name: str) -> ArrayHeader:
        """The header of a member. Raises an error if it declares more or less than the member contains."""
        info, what = self._members[name], self._what(name)
        with self._opened() as archive, self._member(archive, name) as member:
            header = read_header(member, what)
        if info.file_size != header.size + header.nbytes:
            raise InputError(
                f"{what} has {info.file_size} bytes, but its header declares {header.size + header.nbytes}. {DAMAGED}"
            )
        most = info.compress_size * (MOST_DEFLATED if self.is_compressed(name) else 1) + 2**12
        if header.nbytes > most:
            raise InputError(f"{what} declares {header.nbytes} bytes, more than the file can hold. {DAMAGED}")
        return header

    def rows(
        self, name: str, chosen: Int[np.ndarray, " row"] | None = None, shape: tuple[int, ...] | None = None
    ) -> Rows:
        """All or some rows of a member; those of a compressed member are read now and kept in memory.

        `shape` reinterprets it as an array of that shape, with the same number of entries.
        """
        header = self.header(name)
        if shape is not None:
            header = replace(header, shape=shape)
        if not self.is_compressed(name):
            rows = _laid_out(self.path, self._offset(name) + header.size, header)
            return rows if chosen is None else ChosenRows(rows, chosen)
        return MemoryRows(self._streamed(name, header, chosen))

    def read(self, name: str) -> Shaped[np.ndarray, "row ..."]:
        """A whole member, such as the labels."""
        rows = self.rows(name)
        return rows.read(np.arange(len(rows)))

    def _streamed(
        self, name: str, header: ArrayHeader, chosen: Int[np.ndarray, " row"] | None
    ) -> Shaped[np.ndarray, "chosen ..."]:
        """Chosen rows of a compressed member."""
        wanted = np.arange(header.shape[0] if header.shape else 1) if chosen is None else chosen
        row_bytes = header.nbytes // max(1, header.shape[0] if header.shape else 1)
        check_free_memory(len(wanted) * row_bytes, self._what(name))
        order = np.argsort(wanted, kind="stable")
        rows = np.empty((len(wanted), *header.shape[1:]), header.dtype)
        start = 0
        for block in self.blocks(name, header.shape):
            low, high = np.searchsorted(wanted[order], [start, start + len(block)])
            here = order[low:high]
            rows[here] = block[wanted[here] - start]
            start += len(block)
        return rows

    def blocks(self, name: str, shape: tuple[int, ...] | None = None) -> Iterator[Shaped[np.ndarray, "..."]]:
        """All rows of a member from its beginning, some at a time; its checksum is verified at its end."""
        header, what = self.header(name), self._what(name)
        if header.fortran and len(header.shape) > 1:
            raise InputError(f"{what} is compressed and in Fortran order, which is not supported. Save it in C order.")
        count, *rest = shape or header.shape or (1,)
        row_bytes = header.nbytes // max(1, count)
        step = max(1, BLOCK_BYTES // max(1, row_bytes))
        try:
            with self._opened() as archive, self._member(archive, name) as member:
                member.read(header.size)
                for start in range(0, count, step):
                    rows = min(step, count - start)
                    content = member.read(rows * row_bytes)
                    if len(content) != rows * row_bytes:
                        raise EOFError("it ends early")
                    yield np.frombuffer(content, header.dtype).reshape(rows, *rest)
                member.read(1)  # the end, where the checksum is compared
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise InputError(f"{what} cannot be unpacked: {_first_line(error)}. {DAMAGED}") from error

    def _offset(self, name: str) -> int:
        """Byte at which the content of an uncompressed member begins."""
        start = self._members[name].header_offset
        with os.fdopen(open_regular(self.path), "rb") as file:
            file.seek(start)
            found = file.read(LOCAL_HEADER.size)
            size = os.fstat(file.fileno()).st_size
        if len(found) < LOCAL_HEADER.size or not found.startswith(ZIP_BEGINS):
            raise InputError(f"{self._what(name)} does not begin at the position given in the file. {DAMAGED}")
        *_, name_length, extra_length = LOCAL_HEADER.unpack(found)
        offset = start + LOCAL_HEADER.size + name_length + extra_length
        if offset + self._members[name].file_size > size:
            raise InputError(f"{self._what(name)} extends beyond the end of the file. {DAMAGED}")
        return offset

    @contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        with os.fdopen(open_regular(self.path), "rb") as file:
            try:
                archive = zipfile.ZipFile(file)
            except (zipfile.BadZipFile, ValueError, struct.error, EOFError) as error:
                raise InputError(f"{self.path} is not an .npz file: {_first_line(error)}. {DAMAGED}") from error
            with archive:
                yield archive

    def _member(self, archive: zipfile.ZipFile, name: str) -> zipfile.ZipExtFile:
        try:
            return cast("zipfile.ZipExtFile", archive.open(self._members[name]))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise InputError(f"{self._what(name)} cannot be read: {_first_line(error)}. {DAMAGED}") from error

    def _what(self, name: str) -> str:
        return f"Array {name!r} of {self.path}"


def check_free_memory(nbytes: int, what: str) -> None:
    """Raise if more would be read into memory than is free, before anything is allocated."""
    free = available_memory()
    if free is not None and nbytes > 0.8 * free:
        raise InputError(
            f"{what} is compressed, so the selected part must fit into memory: {nbytes / 2**30:.1f} GB of "
            f"{free / 2**30:.1f} GB free. Keep fewer values of its factors (keep=…), or unpack it into a file that is "
            "read from disk: recombine data unpack FILE OUT.npy."
        )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
