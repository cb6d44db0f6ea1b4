"""Activations of whole layers over the whole grid, computed once each within a memory limit.

    for name, found in stream(subject, memory=2**30):       # as few passes through the model as the memory allows
        found.rows                                           # (cell, unit)

A layer that does not fit is represented by a random sample of its units, which `drawn` records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from recombine.core.seeds import generator
from recombine.diagnostics.model.layers import OUT, Subject
from recombine.diagnostics.numerics.grids import rows_of

MEMORY = 2**30


@dataclass(frozen=True, eq=False)
class LayerRows:
    """One layer over the grid.

    Attributes:
        rows: One per cell, 0 for cells that do not exist. Units are in memory order, except those of "out".
        units: Number of units of the layer.
        drawn: Indices of the sampled units, ascending; None for all.
    """

    rows: Shaped[Tensor, "cell unit"]
    units: int
    drawn: Int[Tensor, " unit"] | None = None


def draw_units(subject: Subject, name: str, memory: int, seed: int) -> Int[Tensor, " unit"] | None:
    """The units of a layer that fit into `memory` over the whole grid: None for all, or a random sample."""
    units = subject.layers[name].units
    fitting = max(1, memory // (len(subject.space) * subject.dtype.itemsize))
    if units <= fitting:
        return None
    return torch.randperm(units, generator=generator(seed, "units", name))[:fitting].sort().values


def fits(subject: Subject, memory: int) -> bool:
    """Whether all chosen layers over the whole grid fit into `memory` together."""
    return len(subject.space) * subject.bytes_kept <= memory


def collect(subject: Subject, names: Sequence[str], *, memory: int = MEMORY, seed: int = 0) -> dict[str, LayerRows]:
    """The activations of some layers at all cells that exist, in one pass through the model.

    Raises:
        InputError: at the first NaN or infinite activation.
    """
    part = replace(subject, layers={name: subject.layers[name] for name in names})
    drawn = {name: draw_units(subject, name, memory, seed) for name in names}
    found: dict[str, Tensor] = {}
    with torch.no_grad():
        for cells in subject.cells.split(subject.cells_within()):
            values = subject.values(cells)
            rows = {name: _rows(part, name, seen) for name, seen in part.activations(values).items()}
            subject.check_finite(rows, values)
            for name, row in rows.items():
                row = row if row.is_floating_point() else row.to(subject.dtype)
                units = drawn[name]
                row = row if units is None else row[:, units.to(row.device)]
                if name not in found:
                    new = torch.empty if subject.complete else torch.zeros
                    found[name] = new(len(subject.space), row.shape[1], dtype=row.dtype)
                found[name][cells] = row.cpu()
    return {name: LayerRows(found[name], subject.layers[name].units, drawn[name]) for name in names}


def _rows(subject: Subject, name: str, activation: Tensor) -> Tensor:
    """One row per cell, in memory order except for the output, which keeps the order of its pixels."""
    if name == OUT:
        return rows_of(activation)
    order = subject.layers[name].memory_order
    return rows_of(activation.permute(0, *(axis + 1 for axis in order)))


def stream(subject: Subject, *, memory: int = MEMORY, seed: int = 0) -> Iterator[tuple[str, LayerRows]]:
    """Every chosen layer over the grid, as many per pass as fit into `memory` together."""
    group: list[str] = []
    size = 0
    for name, layer in subject.layers.items():
        needed = min(memory, len(subject.space) * layer.units * subject.dtype.itemsize)
        if group and size + needed > memory:
            yield from collect(subject, group, memory=memory, seed=seed).items()
            group, size = [], 0
        group.append(name)
        size += needed
    if group:
        yield from collect(subject, group, memory=memory, seed=seed).items()
