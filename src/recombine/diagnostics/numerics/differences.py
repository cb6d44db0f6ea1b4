"""The metric tensor from finite differences between neighbouring cells of the grid.

Used for models that cannot be differentiated (integer codes, black boxes), or to follow the original experiments. The
differences are those of `numpy.gradient`: (a₊ − a₋) / 2h inside, one-sided at the borders, and second-order accurate
between unequally spaced values. A cyclic factor has no border: its last value is a neighbour of its first. Labels have
no neighbours, so there are no differences along a categorical factor. g is NaN at cells that lack a neighbour.

The grid is processed in *tubes*: a tube runs along the first factor and covers a tile of the others, with a margin of
one cell on each side for the differences. Only three slabs of a tube are in memory at a time, so memory depends on the
tile and not on the grid; a tube is as thick as the memory budget allows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from recombine.core.errors import Missing, NotComputable
from recombine.core.factors import Factor, FactorSpace
from recombine.diagnostics.model.layers import Subject
from recombine.diagnostics.numerics.derivatives import gram_of_columns

SLABS = 4  # number of slabs in memory: three slabs of activations and their differences


@dataclass(frozen=True)
class Span:
    """Consecutive values start … stop − 1 of one factor, and whether a neighbour is added before and after them."""

    start: int
    stop: int
    before: bool
    after: bool

    @classmethod
    def of(cls, factor: Factor, start: int, stop: int) -> Span:
        """The span of values start … stop − 1 of a factor, with a neighbour on each side that has one."""
        wraps = _wraps(factor)
        return cls(start, stop, wraps or start > 0, wraps or stop < factor.size)

    def __len__(self) -> int:
        return self.stop - self.start

    def positions(self, size: int) -> Int[Tensor, " position"]:
        """Grid positions, including the added neighbours."""
        return torch.arange(self.start - self.before, self.stop + self.after) % size

    def inner(self, slab: Tensor, axis: int) -> Tensor:
        """Remove the added neighbours from an axis."""
        return slab.narrow(axis, int(self.before), len(self))

    def difference(self, slab: Tensor, axis: int, out: Tensor) -> None:
        """Write a₊ − a₋ along an axis; at a border, the cell itself replaces the missing neighbour."""
        if slab.shape[axis] == 1:  # a single value has no neighbour
            out.zero_()
            return

        def subtract(above: int, below: int, first: int, length: int) -> None:
            if length > 0:
                here = out.narrow(axis, first, length)
                torch.sub(slab.narrow(axis, above, length), slab.narrow(axis, below, length), out=here)

        size, n = slab.shape[axis], len(self)
        if not self.before:
            subtract(1, 0, 0, 1)
        subtract(2, 0, int(not self.before), n - int(not self.before) - int(not self.after))
        if not self.after:
            subtract(size - 1, size - 2, n - 1, 1)

    def weighted_difference(self, slab: Tensor, axis: int, weights: Float[Tensor, "position two"] | None) -> Tensor:
        """The derivative along an axis with unequally spaced values."""
        assert weights is not None
        ends = (slab.narrow(axis, 0, 1), slab.narrow(axis, slab.shape[axis] - 1, 1))
        padded = torch.cat([*([] if self.before else ends[:1]), slab, *([] if self.after else ends[1:])], dim=axis)
        before, here, after = (padded.narrow(axis, start, len(self)) for start in range(3))
        shape = [-1 if a == axis else 1 for a in range(slab.ndim)]
        return _weighted(after, here, before, weights[self.start : self.stop].T.reshape(2, *shape))


def _weighted(after: Tensor, here: Tensor, before: Tensor, weights: Tensor) -> Tensor:
    ahead, behind = weights.to(here.device, here.dtype)
    return ahead * (after - here) + behind * (here - before)


def _wraps(factor: Factor) -> bool:
    return factor.kind == "cyclic" and factor.size > 2


def _distances(factor: Factor) -> Float[Tensor, " position"]:
    """Distance between the two neighbours of each value: 2h, or h at a border. It is 1 if differences are weighted."""
    if factor.listed:
        return torch.ones(factor.size, dtype=torch.float64)
    distances = torch.full((factor.size,), 2 * factor.step, dtype=torch.float64)
    if not _wraps(factor):
        distances[0] = distances[-1] = factor.step
    return distances


def _weights(factor: Factor) -> Float[Tensor, "position two"] | None:
    """Weights (u, v) for unequally spaced values: the derivative is u (a₊ − a) + v (a − a₋). None for even spacing.

    With a step s to the previous and t to the next value, u = s / t(s + t) and v = t / s(s + t). This is exact for
    quadratic functions.
    """
    if not factor.listed:
        return None
    steps = torch.tensor(factor.listed, dtype=torch.float64).diff()
    behind, ahead = steps[:-1], steps[1:]
    weights = torch.zeros(factor.size, 2, dtype=torch.float64)
    weights[1:-1, 0] = behind / (ahead * (behind + ahead))
    weights[1:-1, 1] = ahead / (behind * (behind + ahead))
    weights[0, 0], weights[-1, 1] = 1 / steps[0], 1 / steps[-1]
    return weights


def check_differences(space: FactorSpace) -> None:
    """Raise if a factor that has derivatives has only one value, and so no neighbouring values."""
    for name, factor in space.factors.items():
        if factor.size < 2 and factor.differentiable:
            raise NotComputable(
                Missing.NOT_APPLICABLE,
                f"Finite differences need at least 2 values of every factor. Got 1 value of {name!r}. Use "
                "metric_tensor_exact, or leave the factor out of the space.",
            )


def tiles(space: FactorSpace, cells: int) -> Iterator[tuple[Span, ...]]:
    """Divide all factors except the first into tiles of at most `cells` cells, margins included, that cover the grid.

    Tiles have similar extents in all directions, because a thin tile consists mostly of margin.
    """
    factors = list(space.factors.values())[1:]
    parts = [1] * len(factors)
    lengths = [f.size for f in factors]
    while math.prod(n + 2 for n in lengths) > cells and max(lengths, default=1) > 1:
        longest = lengths.index(max(lengths))
        while math.ceil(factors[longest].size / parts[longest]) == lengths[longest]:
            parts[longest] += 1
        lengths[longest] = math.ceil(factors[longest].size / parts[longest])
    spans = [
        [Span.of(f, start, min(start + n, f.size)) for start in range(0, f.size, n)] for f, n in zip(factors, lengths)
    ]
    return itertools.product(*spans)


def metric_by_differences(
    subject: Subject, *, cells_kept: int, cells_at_once: int
) -> dict[str, Float[Tensor, "cell direction direction"]]:
    """g = JᵀJ of every layer at every cell from finite differences, in float64.

    Args:
        subject: The model with its layers.
        cells_kept: Largest number of cells whose activations are in memory.
        cells_at_once: Number of cells per forward pass.
    """
    space = subject.space
    check_differences(space)
    n = space.n_factors
    grids = {
        name: torch.empty(*space.shape, n, n, dtype=torch.float64) for name in subject.layers
    }  # small, because it holds no activations
    for tile in tiles(space, cells_kept // SLABS):
        where = tuple(slice(span.start, span.stop) for span in tile)
        for position, metrics in _tube(subject, tile, cells_at_once):
            for name, metric in metrics.items():
                grids[name][(position, *where)] = metric
    inverse = [1 / _distances(f) for f in space.factors.values()]
    for axis, scale in enumerate(inverse):
        along = scale.reshape(-1, *[1] * (n - 1 - axis), 1)  # broadcasts over the later factors and one matrix axis
        for grid in grids.values():
            grid[..., axis, :] *= along
            grid[..., :, axis] *= along
    kept = subject.differentiable
    metrics = {name: grid.reshape(len(space), n, n)[:, kept][:, :, kept] for name, grid in grids.items()}
    gone = torch.ones(len(space), dtype=torch.bool)
    gone[subject.cells] = False
    for metric in metrics.values():
        metric[gone] = torch.nan  # the cell does not exist, although its neighbours give differences
    return metrics


def _tube(subject: Subject, tile: tuple[Span, ...], cells_at_once: int) -> Iterator[tuple[int, dict[str, Tensor]]]:
    """Iterate along the first factor: yields its position and the unscaled metric of every layer over the tile."""
    factor = next(iter(subject.space.factors.values()))
    wraps = _wraps(factor)
    order = list(range(-1, factor.size + 1)) if wraps else list(range(factor.size))
    slabs: dict[int, dict[str, Tensor]] = {}
    for step, position in enumerate(order):
        slabs[position] = _slab(subject, position % factor.size, tile, cells_at_once)
        if step > 0 and (position - 1 >= 0):
            yield position - 1, _metric(subject.space, slabs, position - 1, tile)
        slabs.pop(position - 2, None)
    if not wraps:
        yield factor.size - 1, _metric(subject.space, slabs, factor.size - 1, tile)


def _slab(
    subject: Subject, position: int, tile: tuple[Span, ...], cells_at_once: int
) -> dict[str, Shaped[Tensor, "*tile unit"]]:
    """Activations of one slab of a tube, margins included; NaN at cells that do not exist."""
    shape = subject.space.shape
    axes = [torch.tensor([position]), *(span.positions(size) for span, size in zip(tile, shape[1:]))]
    cells = torch.zeros((), dtype=torch.long)
    for axis, size in zip(axes, shape):
        cells = cells.unsqueeze(-1) * size + axis
    margin_shape = tuple(len(axis) for axis in axes[1:])
    cells = cells.flatten()
    exists = torch.ones(len(cells), dtype=torch.bool) if subject.complete else torch.isin(cells, subject.cells)
    parts: dict[str, list[Tensor]] = {name: [] for name in subject.layers}
    with torch.no_grad():
        for some in cells[exists].split(cells_at_once):
            if len(some) == 0:
                continue
            values = subject.values(some)
            rows = subject.rows(values)
            subject.check_finite(rows, values)
            for name, row in rows.items():
                parts[name].append(row if row.is_floating_point() else row.to(subject.dtype))
    return {name: _placed(subject, name, rows, exists).reshape(*margin_shape, -1) for name, rows in parts.items()}


def _placed(
    subject: Subject, name: str, rows: list[Tensor], exists: Bool[Tensor, " cell"]
) -> Shaped[Tensor, "cell unit"]:
    """Place the rows of the existing cells at their positions among all cells."""
    if bool(exists.all()):
        return rows[0] if len(rows) == 1 else torch.cat(rows)
    units = subject.layers[name].units
    dtype, device = (rows[0].dtype, rows[0].device) if rows else (subject.dtype, subject.device)
    found = torch.full((len(exists), units), torch.nan, dtype=dtype, device=device)
    if rows:
        found[exists.to(device)] = torch.cat(rows)
    return found


def _metric(
    space: FactorSpace, slabs: dict[int, dict[str, Tensor]], position: int, tile: tuple[Span, ...]
) -> dict[str, Tensor]:
    """JᵀJ of one slab of a tube, from differences that have not been divided by distances yet."""
    metrics = {}
    along, *across = space.factors.values()
    for name, here in slabs[position].items():
        after, before = (slabs.get(position + side, slabs[position])[name] for side in (1, -1))
        for axis, span in enumerate(tile):
            after, before = span.inner(after, axis), span.inner(before, axis)
        columns = here.new_empty(1 + len(tile), *after.shape)
        torch.sub(after, before, out=columns[0])
        if along.listed:
            middle = here
            for axis, span in enumerate(tile):
                middle = span.inner(middle, axis)
            columns[0] = _weighted(after, middle, before, _weights(along)[position])  # type: ignore[index]
        for axis, (span, factor) in enumerate(zip(tile, across)):
            slab = here
            for other, beside in enumerate(tile):
                if other != axis:
                    slab = beside.inner(slab, other)
            if factor.listed:
                columns[axis + 1] = span.weighted_difference(slab, axis, _weights(factor))
            elif factor.differentiable:
                span.difference(slab, axis, columns[axis + 1])
            else:
                columns[axis + 1] = 0
        metric = gram_of_columns(columns.reshape(len(columns), -1, columns.shape[-1]))
        metrics[name] = metric.reshape(*after.shape[:-1], *metric.shape[1:])
    return metrics
