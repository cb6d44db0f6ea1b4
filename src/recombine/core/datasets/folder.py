"""A folder of PNG and JPEG files, and a CSV file that names each one and its labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import numpy as np
from jaxtyping import Int, UInt8
from pydantic import Field

from recombine.core.datasets.files import DataFiles, open_regular
from recombine.core.datasets.rows import Rows
from recombine.core.datasets.source import DATASETS, DataPath, Source, rows_of
from recombine.core.datasets.tables import SPLIT, parts, read_csv
from recombine.core.errors import InputError
from recombine.core.registry import Count, NotIdentity

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG")
GREY = ("1", "L", "LA")
COLOUR = ("P", "RGB", "RGBA", "CMYK", "YCbCr")
ORIENTATION = 0x0112  # the EXIF entry for the orientation of the camera
MOST_PIXELS = 2**26  # of one picture


@DATASETS.register("folder")
def folder(
    files: DataFiles,
    folder: DataPath,
    labels: Annotated[str, NotIdentity()] = "labels.csv",
    column: str = "file",
    size: Annotated[list[Count], Field(min_length=2, max_length=2)] | None = None,
) -> Source:
    """PNG and JPEG files with labels in a CSV file.

    Pictures are grey if all files are grey, and coloured otherwise. Transparent pixels become white.

    Args:
        files: Opens the files.
        folder: The folder; names in the CSV file are relative to it.
        labels: The CSV file, relative to the folder unless it is absolute: a header line, then a line per picture. A
            column `split` with the words train and test defines the split of the data set.
        column: The column with the names of the picture files; the others are factors.
        size: (rows, columns) to which pictures are resized. Without it, all pictures must have the same size.
    """
    place = files.folder(folder)
    columns = read_csv(files.open("labels", place / labels))
    if column not in columns:
        raise InputError(f"{labels} has no column {column!r} with file names. Its columns are {', '.join(columns)}.")
    names = columns.pop(column).tolist()
    split = columns.pop(SPLIT, None)
    if not columns:
        raise InputError(f"{labels} has file names but no column with labels.")
    paths = [place / _inside(name, labels) for name in names]
    files.open_many("pictures", place, paths)
    rows = PictureRows(paths, None if size is None else (size[0], size[1]))
    is_test = None if split is None else parts(split, f"Column {SPLIT!r} of {labels}")
    channels = "last" if len(rows.shape) == 4 else None
    return Source(columns, rows_of(rows), rows.shape, rows.dtype, channels=channels, is_test=is_test)


def _inside(name: str, labels: str) -> PurePosixPath:
    """A file's name, which must not lead out of the folder."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts:
        raise InputError(
            f"{labels} names the file {name!r}. File names must be relative and must not leave the folder."
        )
    return path


class PictureRows(Rows):
    """Pictures of files, decoded on demand."""

    def __init__(self, paths: list[Path], size: tuple[int, int] | None) -> None:
        self.paths, self.size = paths, size
        self.dtype = np.dtype(np.uint8)
        self.mode = "L"
        shapes: dict[tuple[int, int], Path] = {}
        for path in paths:
            with _opened(path) as image:
                if image.mode not in (*GREY, *COLOUR):
                    raise InputError(f"{path} has pixels of mode {image.mode}. Save it with 8 bits per channel.")
                if image.mode not in GREY:
                    self.mode = "RGB"
                # the camera lay on its side; of PNG files this would decode the picture, and they do not say so
                turned = image.format == "JPEG" and image.getexif().get(ORIENTATION, 1) >= 5
                columns, rows = image.size[::-1] if turned else image.size
                shapes.setdefault((rows, columns), path)
        if size is None and len(shapes) > 1:
            (first, one), (second, other) = list(shapes.items())[:2]
            raise InputError(
                f"All pictures must have the same size. {one} has {first[0]}×{first[1]} pixels, {other} has "
                f"{second[0]}×{second[1]}. Give size=[rows, columns] to resize all of them."
            )
        pixels = size or next(iter(shapes))
        self.shape = (len(paths), *pixels) if self.mode == "L" else (len(paths), *pixels, 3)

    def read(self, indices: Int[np.ndarray, " row"]) -> UInt8[np.ndarray, "row ..."]:
        rows = np.empty((len(indices), *self.shape[1:]), self.dtype)
        for row, index in enumerate(indices):
            rows[row] = self._decoded(self.paths[int(index)])
        return rows

    def _decoded(self, path: Path) -> UInt8[np.ndarray, "..."]:
        from PIL import Image, ImageOps

        with _opened(path) as opened:
            try:
                opened.load()
            except Exception as error:  # decoders raise many types
                raise InputError(f"{path} cannot be decoded: {error}. It is damaged or truncated.") from error
            image = ImageOps.exif_transpose(opened) if opened.format == "JPEG" else opened
            if image.mode in ("P", "RGBA", "LA") or "transparency" in image.info:
                image = image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
            image = image.convert(self.mode)
            if self.size is not None:
                image = image.resize((self.size[1], self.size[0]), Image.Resampling.BOX)
            found = np.asarray(image)
        if found.shape != self.shape[1:]:
            raise InputError(f"{path} changed while it was in use. It now has {found.shape} pixels.")
        return found


@contextmanager
def _opened(path: Path) -> Iterator[Image]:
    """A picture of which only the header was read; raises for other formats and implausible sizes."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError("Reading PNG and JPEG files requires Pillow. Install it with: pip install pillow.") from error
    with os.fdopen(open_regular(path), "rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the size is checked below
        try:
            image = Image.open(file, formats=FORMATS)
        except Exception as error:  # decoders raise many types
            raise InputError(f"{path} cannot be read as PNG or JPEG. It is damaged or has another format.") from error
        if image.width * image.height > MOST_PIXELS:
            raise InputError(f"{path} has {image.width}×{image.height} pixels. The maximum is {MOST_PIXELS}.")
        with image:
            yield image
