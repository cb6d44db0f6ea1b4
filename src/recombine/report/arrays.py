"""Arrays of a page: quantized to 8 or 16 bits, compressed and encoded as text.

A number v is stored as a code c in 0 … 2^bits − 2 and read as v = f(low + (high − low)·c / (2^bits − 2)). The last code
stands for a missing number. f is *linear*, *root* (f(t) = t·|t|) or *log* (f(t) = 10^t). *root* has the finest steps
near 0, so that the faint outputs of failing decoders remain visible.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from recombine.core.images import as_pictures
from recombine.diagnostics.page_content import Curve

SMALLEST = 1e-18  # smallest number on the log curve; smaller numbers are rounding errors of single precision
LEVEL = 6  # compression level; level 9 takes three times as long and saves half a per cent


def quantize(
    values: Shaped[np.ndarray, "..."], *, bits: int = 8, curve: Curve = "linear", by_row: bool = False
) -> tuple[Shaped[np.ndarray, "..."], dict[str, Any]]:
    """Quantize values. Returns the codes and the metadata to decode them.

    Args:
        values: The numbers. NaN marks missing ones.
        bits: 8 or 16.
        curve: The function f of the module docstring.
        by_row: Use a separate range for each entry of the first axis.
    """
    bent = np.asarray(values, dtype=np.float64)
    if curve == "log":
        with np.errstate(invalid="ignore"):
            bent = np.log10(np.maximum(bent, SMALLEST))
    elif curve == "root":
        bent = np.sign(bent) * np.sqrt(np.abs(bent))
    known = np.isfinite(bent)
    rows = bent.reshape(len(bent) if by_row else 1, -1) if bent.size else np.zeros((1, 0))
    seen = known.reshape(rows.shape)
    low = np.min(rows, axis=1, where=seen, initial=np.inf)
    high = np.max(rows, axis=1, where=seen, initial=-np.inf)
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
    last = 2**bits - 1
    span = np.where(high > low, high - low, 1.0)
    with np.errstate(invalid="ignore"):
        codes = np.round((rows - low[:, None]) / span[:, None] * (last - 1))
    codes = np.where(seen, codes, last).astype(np.uint8 if bits == 8 else "<u2").reshape(bent.shape)
    low, high = ([float(f"{v:.9g}") for v in bounds] for bounds in (low, low + span))
    about = {"shape": list(bent.shape), "bits": bits, "curve": curve}
    return codes, about | ({"low": low, "high": high} if by_row else {"low": low[0], "high": high[0]})


def restore(codes: Shaped[np.ndarray, "..."], about: dict[str, Any]) -> Shaped[np.ndarray, "..."]:
    """Decode values as the page does. This is the inverse of `quantize` up to rounding."""
    last = 2 ** about["bits"] - 1
    low, high = (np.reshape(about[k], (-1, *[1] * (codes.ndim - 1))) if isinstance(about[k], list) else about[k]
                 for k in ("low", "high"))  # fmt: skip
    bent = np.where(codes == last, np.nan, low + (high - low) * codes.astype(np.float64) / (last - 1))
    if about["curve"] == "log":
        return 10.0**bent
    return bent * np.abs(bent) if about["curve"] == "root" else bent


class Block(NamedTuple):
    """The block of the page that an array belongs to: a kind of content ("outputs", the name of a part) and a model."""

    kind: str
    model: str = ""

    def __str__(self) -> str:
        return f"model {self.model!r}, {self.kind}" if self.model else self.kind


@dataclass
class Blobs:
    """All arrays of a page. Equal arrays are stored once.

    Attributes:
        texts: Maps the name of a blob to its text (base64 of the compressed bytes).
        sizes: Maps blocks of the page to their size in bytes of text.
    """

    texts: dict[str, str] = field(default_factory=dict)
    sizes: dict[Block, int] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def add(
        self,
        values: Shaped[np.ndarray, "..."],
        block: Block,
        *,
        bits: int = 8,
        curve: Curve = "linear",
        by_row: bool = False,
    ) -> dict[str, Any]:
        """Store an array for a block of the page and return its description for the page's JSON."""
        codes, about = quantize(values, bits=bits, curve=curve, by_row=by_row)
        return about | {"blob": self.add_bytes(codes.tobytes(), block)}

    def add_integers(self, values: Shaped[np.ndarray, "..."], block: Block) -> dict[str, Any]:
        """Store integers of up to 31 bits without quantization."""
        return {"shape": list(values.shape), "blob": self.add_bytes(values.astype("<i4").tobytes(), block)}

    def add_bytes(self, content: bytes, block: Block) -> str:
        """Store compressed bytes and return the name of their blob."""
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self._known:
            text = base64.b64encode(zlib.compress(content, LEVEL)).decode()
            self._known[digest] = f"b{len(self._known)}"
            self.texts[self._known[digest]] = text
            self.sizes[block] = self.sizes.get(block, 0) + len(text)
        return self._known[digest]


@dataclass(frozen=True)
class BlockPacker:
    """Packs the arrays of one block. Parts of a diagnosis receive it as their `Packer`."""

    blobs: Blobs
    block: Block

    def add(
        self, values: Shaped[np.ndarray, "..."], *, bits: int = 8, curve: Curve = "linear", by_row: bool = False
    ) -> dict[str, Any]:
        """Store an array, quantized to `bits` bits."""
        return self.blobs.add(values, self.block, bits=bits, curve=curve, by_row=by_row)

    def add_pictures(self, outputs: Shaped[np.ndarray, "cell ..."], *, bits: int = 8) -> dict[str, Any]:
        """Store outputs as (cell, row, column), (cell, row, column, channel) or (cell, n) for the page to draw."""
        found = as_pictures(outputs)
        flat = outputs.reshape(len(outputs), -1) if found is None else found
        return self.blobs.add(flat, self.block, bits=bits, curve="root")

    def add_integers(self, values: Shaped[np.ndarray, "..."]) -> dict[str, Any]:
        """Store integers of up to 31 bits without quantization."""
        return self.blobs.add_integers(values, self.block)
