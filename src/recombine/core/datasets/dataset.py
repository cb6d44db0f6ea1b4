"""A data set: labelled pictures over a factor grid, read by number.

    dataset = open_dataset("dsprites.npz", keep={"orientation": "0:40:4"})
    dataset.space                         # FactorSpace(shape=[square, ellipse, heart], scale=…, …)
    dataset.pictures(torch.arange(8))     # (8, 64, 64), bytes divided by 255
    dataset.cells                         # the cell of every picture
    dataset.sha256                        # checksum of its content

Only labels and the requested pictures are loaded; of a compressed file, the pictures of the values kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.core.datasets.files import DataFiles
from recombine.core.datasets.keep import Keep, chosen_pictures, kept_factor, kept_positions
from recombine.core.datasets.labels import NAMES_MISSING, placed
from recombine.core.datasets.layouts import layout_of
from recombine.core.datasets.source import DATASETS, Channels, Source
from recombine.core.errors import InputError
from recombine.core.factors import Factor, FactorSpace

COLOURS = (1, 3, 4)  # numbers of channels of a colour picture
SAMPLE = 256  # pictures whose values are checked when a data set is opened
MOST_CELLS = 2**27
OPEN = 4  # data sets kept open

_open: dict[str, Dataset] = {}


class Dataset:
    """Labelled pictures over a factor grid. Open one with `open_dataset`.

    Args:
        source: Pictures and labels of the values kept.
        space: The factors, without those that have a single value.
        positions: The grid position of every picture.
        fixed: The value of each factor that has a single value.

    Attributes:
        config: The configuration of its layout.
        keep: Positions of the values kept, for factors of which not all are.
        whole: The factors before values were selected.
        opened: The files it is read from.
        scale: Stored numbers are divided by this.
        span: The smallest and the largest number of a sample of pictures, after this division.
        picture_shape: (row, column), (channel, row, column) or (number,).
    """

    config: dict[str, Any]
    keep: dict[str, list[int]]
    whole: FactorSpace
    opened: DataFiles

    def __init__(
        self,
        source: Source,
        space: FactorSpace,
        positions: Int[np.ndarray, "picture factor"],
        fixed: dict[str, str],
    ) -> None:
        if len(space) > MOST_CELLS:
            raise InputError(f"A data set has at most {MOST_CELLS} cells. {space} has {len(space)}. Keep fewer values.")
        self.source, self.space, self.positions, self.fixed = source, space, positions, fixed
        self.is_test = source.is_test
        self._rows = source.rows(None)
        self._channels = _channels(source)
        shape = source.shape[1:]
        self.picture_shape = (shape[-1], *shape[:-1]) if self._channels == "last" else shape
        if len(self.picture_shape) == 3 and self.picture_shape[0] == 1:
            self.picture_shape = self.picture_shape[1:]
        self.scale, self.span = self._examined()

    def __len__(self) -> int:
        """Number of pictures."""
        return len(self.positions)

    @property
    def sha256(self) -> dict[str, str]:
        """Role of a file → checksum of its content."""
        return self.opened.sha256

    @cached_property
    def cells(self) -> Int[Tensor, " picture"]:
        """The cell of every picture."""
        return torch.from_numpy(np.ravel_multi_index(tuple(self.positions.T), self.space.shape).astype(np.int64))

    @cached_property
    def counts(self) -> Int[Tensor, " cell"]:
        """Number of pictures of every cell."""
        return torch.bincount(self.cells, minlength=len(self.space))

    @cached_property
    def available(self) -> Bool[np.ndarray, "..."]:
        """True for every cell that has a picture, in the space's shape."""
        return (self.counts > 0).numpy().reshape(self.space.shape)

    @cached_property
    def test_cells(self) -> Bool[np.ndarray, "..."] | None:
        """True for every cell whose pictures all belong to the test part of the data set; None if there is no split."""
        if self.is_test is None:
            return None
        trained = torch.bincount(self.cells[~torch.from_numpy(self.is_test)], minlength=len(self.space)) > 0
        return self.available & ~trained.numpy().reshape(self.space.shape)

    @cached_property
    def _by_cell(self) -> tuple[Int[Tensor, " picture"], Int[Tensor, " cell"]]:
        """Pictures in the order of their cells, and the start of each cell."""
        starts = torch.cumsum(self.counts, 0) - self.counts
        return torch.argsort(self.cells, stable=True), starts

    def first(self, cells: Int[Tensor, " cell"]) -> Int[Tensor, " cell"]:
        """The first picture of each cell, all of which must have one."""
        order, starts = self._by_cell
        return order[starts[cells]]

    def of(self, cell: int) -> Int[Tensor, " picture"]:
        """All pictures of a cell."""
        order, starts = self._by_cell
        return order[starts[cell] : starts[cell] + self.counts[cell]]

    def pictures(self, numbers: Int[Tensor, " picture"]) -> Float[Tensor, "picture ..."]:
        """Pictures by index, divided by `scale`, channels first. Raises an error if one is not finite."""
        raw = self._rows.read(numbers.numpy())
        if self._channels == "last":
            raw = np.moveaxis(raw, -1, 1)
        images = torch.from_numpy(np.ascontiguousarray(raw, dtype=np.float32)).reshape(-1, *self.picture_shape)
        if self.source.dtype.kind == "f" and not bool(images.isfinite().all()):
            wrong = int(numbers[int((~images.isfinite().flatten(1).all(1)).nonzero()[0, 0])])
            raise InputError(f"Picture {wrong} contains NaN or infinite numbers. Correct or remove it.")
        return images if self.scale == 1 else images.div_(self.scale)

    def _examined(self) -> tuple[float, tuple[float, float]]:
        """The scale and the span, from a sample of pictures. Raises an error if one of these is not finite."""
        dtype, given = self.source.dtype, self.source.scale
        sample = np.linspace(0, len(self) - 1, min(SAMPLE, len(self))).astype(np.int64)
        seen = self._rows.read(sample)
        if dtype.kind == "f" and not np.isfinite(seen).all():
            wrong = int(sample[np.flatnonzero(~np.isfinite(seen).reshape(len(seen), -1).all(1))[0]])
            raise InputError(f"Picture {wrong} contains NaN or infinite numbers. Correct or remove it.")
        low, high = float(seen.min()), float(seen.max())
        if given is not None:
            scale = given
        elif dtype.kind in "bf":
            scale = 1.0
        else:
            scale = 1.0 if high <= 1 else float(np.iinfo(dtype).max) if dtype.itemsize <= 2 else high
        return scale, (low / scale, high / scale)

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.picture_shape))
        return f"<{self.config.get('kind', 'data set')}: {len(self)} pictures, {shape}, of {self.space}>"


def _channels(source: Source) -> Channels | None:
    """The axis of the colour channels. Raises if it is ambiguous."""
    shape = source.shape[1:]
    if len(shape) != 3:
        return None
    if source.channels is not None:
        return source.channels
    first, last = shape[0] in COLOURS, shape[-1] in COLOURS
    if first == last:
        what = "both the first and the last axis" if first else "neither the first nor the last axis"
        raise InputError(
            f"The pictures have shape {shape}, so {what} could be the colour channels. Set channels='first' or "
            "channels='last'."
        )
    return "first" if first else "last"


def as_layout(data: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a data set from the path of a file or folder; paths are made absolute."""
    config = layout_of(Path(data)) if isinstance(data, str | Path) else dict(data)
    return DATASETS.validate(config).model_dump()


def open_dataset(
    data: str | Path | Mapping[str, Any],
    *,
    factors: Mapping[str, Factor] | None = None,
    keep: Keep | None = None,
    sha256: dict[str, str] | None = None,
) -> Dataset:
    """Open a data set.

    Args:
        data: The path of a file or folder whose layout is known, or its configuration {"kind": …, …}.
        factors: The factors, for layouts that do not define them. Factors that are not given are found in the labels.
        keep: The values of factors to keep: positions, a slice as text ("0:40:4") or labels. A factor of which a single
            value remains is dropped.
        sha256: Checksums recorded earlier. Different content raises an error.

    Raises:
        InputError: If files are missing, damaged, of another layout or changed, if labels and pictures do not match, or
            if labels are not values of the factors.
    """
    config = as_layout(data)
    described = None if factors is None else [*FactorSpace(**factors).to_config().items()]
    key = json.dumps([config, described, dict(keep or {}), sha256], sort_keys=True, default=str)
    found = _open.pop(key, None)
    if found is None or not found.opened.unchanged():
        files = DataFiles(sha256)
        found = assembled(DATASETS.build(config, files), factors, keep)
        found.config, found.opened = config, files
    if config["kind"] != "memory":  # which must not outlive the program's own use of it
        _open[key] = found
    while len(_open) > OPEN:
        del _open[next(iter(_open))]
    return found


def assembled(source: Source, factors: Mapping[str, Factor] | None, keep: Keep | None) -> Dataset:
    """A data set from a source: labels mapped to the factor space, values selected, fixed factors removed."""
    columns = dict(source.columns)
    if not source.named:
        if factors is None or len(factors) != len(columns):
            got = "no names" if factors is None else f"{len(factors)} factors ({', '.join(factors)})"
            raise InputError(f"The labels have {len(columns)} columns, but there are {got} for them. {NAMES_MISSING}")
        columns = dict(zip(factors, columns.values()))
    elif factors is not None and not source.factors:
        unknown = [name for name in factors if name not in columns]
        if unknown:
            raise InputError(f"There are no labels for {', '.join(unknown)}. Got labels for {', '.join(columns)}.")
        columns = {name: columns[name] for name in factors}
    known = {**(factors or {}), **source.factors}
    if source.factors:
        space, positions = FactorSpace(**source.factors), np.stack([*columns.values()], axis=1)
    else:
        space, positions = placed(columns, known)
    kept = kept_positions(keep or {}, space)
    chosen = chosen_pictures(positions, space, kept)
    positions = positions[chosen]
    remaining: dict[str, Factor] = {}
    fixed: dict[str, str] = {}
    axes = []
    for axis, (name, factor) in enumerate(space.factors.items()):
        if name in kept:
            factor = kept_factor(factor, kept[name])
            positions[:, axis] = np.searchsorted(kept[name], positions[:, axis])
        if factor.size == 1:
            fixed[name] = factor.labels[0]
        else:
            remaining[name] = factor
            axes.append(axis)
    if not remaining:
        raise InputError("No factor with more than one value remains. Keep more values.")
    dataset = Dataset(source.only(chosen), FactorSpace(**remaining), positions[:, axes], fixed)
    dataset.keep, dataset.whole = kept, space
    return dataset
