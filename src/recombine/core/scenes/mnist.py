"""Images of the ten digits: those that come with the package, or a user's own in MNIST's file format.

Those of the package are in digits.safetensors, as numbers 0 … 255: ten training images of MNIST (Y. LeCun, C. Cortes,
C. Burges), the first one of each class, training indices 1, 3, 5, 7, 2, 0, 13, 15, 17 and 4. digits.NOTICE.txt beside
it has their licence. Nothing is ever downloaded.

A user's files are IDX files, gzipped or not: `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`. The first image
of each class is taken, so that MNIST's own files give the package's digits again.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import torch
from jaxtyping import Shaped, UInt8
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.files import read_tensors

SIDE = 28
CLASSES = 10
MOST_BYTES = 2**30  # of a file's content; all of MNIST has 47 million
UNSIGNED_BYTES = 0x08  # IDX's name for the type of its entries
SPLITS = ("train", "t10k")  # the first one that is there is read


def packaged_digits() -> UInt8[Tensor, "10 28 28"]:
    """The digits 0 … 9 that come with the package."""
    return read_tensors(Path(__file__).parent / "digits.safetensors")[0]["digits"]


def first_of_each_class(folder: Path) -> UInt8[Tensor, "10 28 28"]:
    """The first image of each of the classes 0 … 9 in a folder of IDX files.

    Raises:
        InputError: if files are missing, damaged, of another format, or lack a class.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder. --mnist must be the folder with MNIST's IDX files.")
    split = next((s for s in SPLITS if _named(folder, s, "images", 3) is not None), SPLITS[0])
    images_file, labels_file = (_found(folder, split, *kind) for kind in (("images", 3), ("labels", 1)))
    images, labels = read_idx(images_file, 3), read_idx(labels_file, 1)
    if tuple(images.shape[1:]) != (SIDE, SIDE):
        raise InputError(
            f"{images_file} contains images of {images.shape[1]}×{images.shape[2]} pixels; expected {SIDE}×{SIDE}."
        )
    if len(images) != len(labels):
        raise InputError(
            f"{images_file.name} has {len(images)} images, but {labels_file.name} has {len(labels)} labels. The files "
            "do not belong together."
        )
    lacking = [digit for digit in range(CLASSES) if not bool((labels == digit).any())]
    if lacking:
        raise InputError(
            f"{labels_file} has no image of class {', '.join(map(str, lacking))}. All classes from 0 to 9 are required."
        )
    return torch.stack([images[(labels == digit).nonzero()[0, 0]] for digit in range(CLASSES)])


def _names(split: str, what: str, dimensions: int) -> list[str]:
    """How the file may be called: as MNIST calls it, or with a dot as some programs unpack it; gzipped or not."""
    plain = [f"{split}-{what}{sign}idx{dimensions}-ubyte" for sign in "-."]
    return [name + ending for name in plain for ending in ("", ".gz")]


def _named(folder: Path, split: str, what: str, dimensions: int) -> Path | None:
    return next((folder / n for n in _names(split, what, dimensions) if (folder / n).is_file()), None)


def _found(folder: Path, split: str, what: str, dimensions: int) -> Path:
    path = _named(folder, split, what, dimensions)
    if path is None:
        raise InputError(
            f"{folder} does not contain MNIST's {what}. None of {', '.join(_names(split, what, dimensions))} exists."
        )
    return path


def read_idx(path: Path, dimensions: int) -> Shaped[Tensor, "..."]:
    """An IDX file of unsigned bytes: two zeros, type, number of dimensions, their sizes (big-endian), the bytes.

    Args:
        path: The file; decompressed if its first two bytes mark it as gzipped.
        dimensions: How many it should have.

    Raises:
        InputError: if the file is damaged, truncated, too long or of another format.
    """
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            header = file.read(4 * (1 + dimensions))
            shape = _shape(path, header, dimensions)
            size = math.prod(shape)
            content = file.read(size + 1)  # one more, to detect trailing bytes
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}. It is damaged or was not downloaded completely.") from error
    if len(content) != size:
        what = "is truncated" if len(content) < size else "has bytes after its last entry"
        sides = "×".join(map(str, shape))
        raise InputError(f"{path} {what}: its header declares {sides} bytes. Download it again.")
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(shape)


def _shape(path: Path, header: bytes, dimensions: int) -> tuple[int, ...]:
    expected = bytes([0, 0, UNSIGNED_BYTES, dimensions])
    if header[:4] != expected or len(header) != 4 * (1 + dimensions):
        raise InputError(
            f"{path} is not an IDX file of unsigned bytes with {dimensions} dimension{'s' * (dimensions > 1)}. It "
            f"begins with {header[:4].hex(' ') or 'nothing'}, not {expected.hex(' ')}."
        )
    shape = struct.unpack(f">{dimensions}I", header[4:])
    if not 0 < math.prod(shape) <= MOST_BYTES:
        raise InputError(f"{path} declares {'×'.join(map(str, shape))} bytes. Expected 1 to {MOST_BYTES}.")
    return shape
