"""The geometry that a model induces on the factor space, layer by layer.

    geometry = metric_tensor_exact(model, space, encode)                 # by derivatives, in bounded memory
    geometry = metric_tensor_finite_difference(model, space, encode)     # by differences on the grid
    geometry["layers.3.act"].metric                                      # g = JᵀJ, (cell, factor, factor)
    geometry["layers.3.act"].log_volume                                  # log₁₀ √det g over the grid
    geometry["layers.3.act"].factorization_pointwise().overall           # in [0.5, 1]
    geometry.to_pandas()                                                 # a row per layer and pair of factors

J = ∂(activation)/∂(factor values) is never stored for more than a few cells. Derivatives are per unit of each factor
(a pixel, a degree), so g depends on these units, and the scores of factors with different units can be compared only
after rescaling.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from recombine.core.errors import Missing, NotComputable
from recombine.core.factors import FactorSpace
from recombine.core.statistics import ratio
from recombine.diagnostics.model.layers import IN, MEMORY, OUT, Encode, Subject, examine
from recombine.diagnostics.model.observing import Model, observing
from recombine.diagnostics.numerics.derivatives import choose_derivative_method, metric_by_method
from recombine.diagnostics.numerics.differences import check_differences, metric_by_differences

if TYPE_CHECKING:
    import pandas

TANGENT_MEMORY = 2**27  # bytes of activations and tangents at a time; a smaller value is slower
GRID_MEMORY = 2**30  # bytes of activations kept for finite differences
USE_DIFFERENCES = 'Use geometry="finite difference" (metric_tensor_finite_difference).'
ROWS_SHARE = 8  # reverse rows use this many times more cells per pass: passes depend only on units


@dataclass(frozen=True, eq=False)
class Factorization:
    """Orthogonality of the directions of the factors in activation space.

    Attributes:
        overall: Score of all factors, in [0.5, 1]; NaN if there is a single factor or all cells are degenerate.
        pairs: Scores of the pairs of factors, symmetric; NaN on the diagonal and for pairs that are
            degenerate everywhere.
        cells: Number of cells.
        degenerate: Number of cells with g = 0, where F is 0/0; they are omitted.
        degenerate_pairs: For each pair, the number of cells at which neither factor has an effect; they are omitted.
    """

    overall: float
    pairs: Float[np.ndarray, "factor factor"]
    cells: int
    degenerate: int
    degenerate_pairs: Int[np.ndarray, "factor factor"]


def factorization_map(metric: Float[np.ndarray, "*cell factor factor"]) -> Float[np.ndarray, "*cell"]:
    """F at each cell: 1 − Σ_{i<j} |g_ij| / ((n − 1) Σ_i |g_ii|).

    For two factors this is F = 1 − |g_xy| / (|g_xx| + |g_yy|) (Liang et al. 2025, Eq. 7); for more, it is the
    mean of the pairs' scores weighted by |g_ii| + |g_jj|. F lies in [0.5, 1] because
    |g_ij| ≤ √(g_ii g_jj) ≤ (g_ii + g_jj) / 2. It is 1 if all directions are orthogonal and 0.5 if all have the same
    direction and length. It is NaN if g = 0 or n = 1.
    """
    sizes = np.abs(metric)
    n = metric.shape[-1]
    diagonal = np.trace(sizes, axis1=-2, axis2=-1)
    mixed = (sizes.sum((-2, -1)) - diagonal) / 2
    return np.asarray(1 - ratio(mixed, (n - 1) * diagonal))


def factorization_pairs_map(
    metric: Float[np.ndarray, "*cell factor factor"],
) -> Float[np.ndarray, "*cell factor factor"]:
    """F of each pair of factors at each cell: 1 − |g_ij| / (|g_ii| + |g_jj|). NaN for i = j and if g_ii = g_jj = 0."""
    sizes = np.abs(metric)
    diagonal = np.diagonal(sizes, axis1=-2, axis2=-1)
    scores = 1 - ratio(sizes, diagonal[..., :, None] + diagonal[..., None, :])
    axes = np.arange(metric.shape[-1])
    scores[..., axes, axes] = np.nan
    return scores


def factorization_pointwise(metric: Float[np.ndarray, "cell factor factor"]) -> Factorization:
    """Mean of F over the cells, in [0.5, 1]. This is the definition in the paper's text."""
    return _summarized(metric, _mean(factorization_map(metric)), _mean(factorization_pairs_map(metric)))


def factorization_ratio_of_means(metric: Float[np.ndarray, "cell factor factor"]) -> Factorization:
    """F of the means of |g_ij| over the cells, in [0.5, 1]. The original experiments use this definition.

    Cells where the activation changes more have more weight than in `factorization_pointwise`. The means are of
    absolute values, because cells of opposite sign would cancel in |mean g_xy|. Degenerate cells do not contribute.
    """
    means = np.abs(metric).mean(0) if len(metric) else np.zeros(metric.shape[1:])
    return _summarized(metric, float(factorization_map(means)), factorization_pairs_map(means))


def _summarized(metric: np.ndarray, overall: Any, pairs: np.ndarray) -> Factorization:
    gone = np.diagonal(metric, axis1=1, axis2=2) == 0
    both = (gone[:, :, None] & gone[:, None, :]).sum(0)
    return Factorization(float(overall), pairs, len(metric), int(gone.all(1).sum()), both)


def _mean(values: np.ndarray) -> Any:
    """Mean over the first axis, ignoring NaNs; NaN if all values are NaN."""
    kept = ~np.isnan(values)
    return ratio(np.where(kept, values, 0).sum(0), kept.sum(0))


@dataclass(frozen=True, eq=False)
class LayerGeometry:
    """The metric tensor of one layer and quantities derived from it. Maps have one entry per cell, in cell order.

    Attributes:
        layer: Name of the layer.
        units: Number of units.
        factors: Names of the factors that have derivatives: all except categorical factors.
        metric: g = JᵀJ, symmetric and positive semi-definite; NaN at cells that do not exist or lack a neighbour.
    """

    layer: str
    units: int
    factors: tuple[str, ...]
    metric: Float[np.ndarray, "cell factor factor"]

    @cached_property
    def known(self) -> Bool[np.ndarray, " cell"]:
        """True at cells where g is known."""
        return np.asarray(~np.isnan(self.metric).any((1, 2)))

    @cached_property
    def eigenvalues(self) -> Float[np.ndarray, "cell factor"]:
        """Eigenvalues of g, ascending. Values below the rounding error of the largest one are set to 0."""
        found = np.full(self.metric.shape[:2], np.nan)
        found[self.known] = np.linalg.eigvalsh(self.metric[self.known])
        largest = found[:, -1:]
        return np.where(found <= len(self.factors) * np.finfo(np.float64).eps * largest, 0.0, found)

    @property
    def volume(self) -> Float[np.ndarray, " cell"]:
        """Volume element dv = √det g ≥ 0. It is 0 if some direction in factor space leaves the activation unchanged."""
        return np.sqrt(self.eigenvalues).prod(1)

    @property
    def log_volume(self) -> Float[np.ndarray, " cell"]:
        """log₁₀ dv; NaN where dv = 0 (`n_singular` counts these cells)."""
        volume = self.volume
        return np.log10(volume, out=np.full(len(volume), np.nan), where=volume > 0)

    @property
    def condition(self) -> Float[np.ndarray, " cell"]:
        """Ratio of the largest to the smallest eigenvalue of g, ≥ 1 (the square of the condition number of J).

        Infinite where g is singular, NaN where g = 0.
        """
        smallest, largest = self.eigenvalues[:, 0], self.eigenvalues[:, -1]
        out = np.where(largest > 0, np.inf, np.nan)
        return np.divide(largest, smallest, out=out, where=smallest > 0)

    @property
    def factorization(self) -> Float[np.ndarray, " cell"]:
        """F at each cell. See `factorization_map`."""
        return factorization_map(self.metric)

    @property
    def degenerate(self) -> Bool[np.ndarray, " cell"]:
        """True where g = 0: no factor changes the activation, for example because all units are dead."""
        return (self.metric == 0).all((1, 2))

    @property
    def n_degenerate(self) -> int:
        """Number of cells with g = 0."""
        return int(self.degenerate.sum())

    @property
    def n_singular(self) -> int:
        """Number of cells with dv = 0, including degenerate cells."""
        return int((self.volume == 0).sum())

    def factorization_pointwise(self, cells: Bool[np.ndarray, " cell"] | None = None) -> Factorization:
        """Mean of F over the grid, or over the cells of a mask. See `factorization_pointwise`."""
        return factorization_pointwise(self.metric[self.known if cells is None else self.known & cells])

    def factorization_ratio_of_means(self, cells: Bool[np.ndarray, " cell"] | None = None) -> Factorization:
        """F of the means of |g_ij| over the grid, or over a mask. See `factorization_ratio_of_means`."""
        return factorization_ratio_of_means(self.metric[self.known if cells is None else self.known & cells])


@dataclass(frozen=True, eq=False)
class Geometry:
    """The metric tensor of every layer. `geometry["out"]` is the geometry of one layer.

    Attributes:
        space: The factor space.
        layers: Maps layer names to geometries, in the order of the model.
        method: Method by which g was computed.
        derivative_method: The method of `numerics.derivatives` that was used; None for finite differences.
        cells_at_once: Number of cells per forward pass.
    """

    space: FactorSpace
    layers: dict[str, LayerGeometry]
    method: Literal["exact", "finite difference"]
    derivative_method: str | None
    cells_at_once: int

    def __getitem__(self, layer: str) -> LayerGeometry:
        return self.layers[layer]

    def rows(self, cells: Mapping[str, Bool[np.ndarray, " cell"]] | None = None) -> list[dict[str, Any]]:
        """One row per layer and pair of factors ("all" for the overall score), for each named set of cells.

        Args:
            cells: Maps names to masks over the cells, such as {"id": ~mask, "ood": mask}. By default, the whole grid.
        """
        masks = {"all": np.ones(len(self.space), dtype=bool)} if cells is None else cells
        return [
            row for layer in self.layers.values() for name, mask in masks.items() for row in _rows(layer, name, mask)
        ]

    def to_pandas(self, cells: Mapping[str, Bool[np.ndarray, " cell"]] | None = None) -> pandas.DataFrame:
        """The table of `rows` as a data frame."""
        import pandas

        return pandas.DataFrame(self.rows(cells))


def _rows(layer: LayerGeometry, name: str, mask: np.ndarray) -> list[dict[str, Any]]:
    mask = mask & layer.known
    pointwise, of_means = layer.factorization_pointwise(mask), layer.factorization_ratio_of_means(mask)
    common = {
        "layer": layer.layer,
        "units": layer.units,
        "cells": name,
        "n_cells": int(mask.sum()),
        "log_volume": float(_mean(layer.log_volume[mask])),
        "median_condition": float(np.median(layer.condition[mask & ~layer.degenerate]))
        if (mask & ~layer.degenerate).any()
        else math.nan,
        "n_singular": int((layer.volume[mask] == 0).sum()),
    }
    scores = [("all", pointwise.overall, of_means.overall, pointwise.degenerate)]
    for i, j in itertools.combinations(range(len(layer.factors)), 2):
        label = f"{layer.factors[i]},{layer.factors[j]}"
        scores.append((label, pointwise.pairs[i, j], of_means.pairs[i, j], pointwise.degenerate_pairs[i, j]))
    return [
        {
            **common,
            "pair": pair,
            "factorization_pointwise": float(first),
            "factorization_ratio_of_means": float(second),
            "n_degenerate": int(degenerate),
        }
        for pair, first, second, degenerate in scores
    ]


def metric_tensor_exact(
    model: Model,
    space: FactorSpace,
    encode: Encode | None = None,
    *,
    layers: str | Sequence[str] | None = None,
    memory: int = TANGENT_MEMORY,
    derivative_method: str | None = None,
    available: Bool[np.ndarray, "..."] | None = None,
) -> Geometry:
    """Metric tensor g = JᵀJ of every layer at every cell from exact derivatives (Liang et al. 2025, Sec. 4).

    J is the derivative of the activation with respect to the factor values, through the encoding.

    Args:
        model: A module or callable that maps codes to outputs. Its state is restored.
        space: The factor space.
        encode: Maps factor values to codes; None if the model takes factor values.
        layers: The layers. See `recombine.diagnostics.model.layers`.
        memory: Bytes of activations and tangents at a time. At least one cell is always processed.
        derivative_method: Method of `numerics.derivatives`; by default the first one that works.
        available: Mask over the grid that is True at cells that exist; None if all do.

    Returns:
        The geometry in float64. Derivatives are computed in the model's precision.

    Raises:
        NotComputable: If no factor has derivatives, if the code is of an integer type or does not change with the
            factors (an encoding that rounds), or if the output does not change with the code or has no derivative.
        InputError: If an activation is NaN or infinite.
    """
    _check_factors(space)
    with observing(model, encode):
        subject = examine(model, space, encode, layers=layers, available=available)
        if not subject.code_dtype.is_floating_point:
            raise NotComputable(
                Missing.NOT_DIFFERENTIABLE,
                f"The codes have type {subject.code_dtype}, and integers have no derivative. {USE_DIFFERENCES}",
            )
        derivative_method = choose_derivative_method(
            subject, None if derivative_method is None else (derivative_method,)
        )
        n = len(subject.differentiable)
        budget = memory * ROWS_SHARE if derivative_method == "reverse rows" else memory // (1 + n)
        chunk = subject.cells_within(budget)
        metrics = {name: torch.full((len(space), n, n), torch.nan, dtype=torch.float64) for name in subject.layers}
        for cells in subject.cells.split(chunk):
            for name, metric in metric_by_method(subject, subject.values(cells), derivative_method).items():
                metrics[name][cells] = metric
    _check_dependence(metrics, "derivative")
    return _geometry(subject, metrics, "exact", derivative_method, chunk)


def metric_tensor_finite_difference(
    model: Model,
    space: FactorSpace,
    encode: Encode | None = None,
    *,
    layers: str | Sequence[str] | None = None,
    memory: int = GRID_MEMORY,
    available: Bool[np.ndarray, "..."] | None = None,
) -> Geometry:
    """Metric tensor g from finite differences between neighbouring cells, as in the original experiments.

    It also works for integer codes. Differences are those of `numpy.gradient`: central inside the grid and one-sided at
    its borders. Cyclic factors have no borders. Differences average over two grid steps, so g describes the
    neighbourhood of a cell rather than a point.

    Args:
        model, space, encode, layers: As for `metric_tensor_exact`.
        memory: Bytes of activations at a time. If this is too small for three slabs of the grid, parts are computed
            twice instead of being stored.
        available: Mask over the grid that is True at cells that exist; None if all do. g is NaN at cells that lack a
            neighbour.

    Raises:
        NotComputable: If no factor has derivatives, if one of them has only one value, or if the output does not change
            over the grid.
        InputError: If an activation is NaN or infinite.
    """
    _check_factors(space)
    check_differences(space)
    with observing(model, encode):
        subject = examine(model, space, encode, layers=layers, available=available)
        chunk = subject.cells_within(min(memory, MEMORY))
        metrics = metric_by_differences(subject, cells_kept=memory // subject.bytes_kept, cells_at_once=chunk)
    _check_dependence(metrics, "difference")
    return _geometry(subject, metrics, "finite difference", None, chunk)


def _check_factors(space: FactorSpace) -> None:
    if not space.differentiable:
        raise NotComputable(
            Missing.NOT_APPLICABLE, f"No factor of {space} has derivatives, because labels have no order or distance."
        )


def _check_dependence(metrics: dict[str, torch.Tensor], what: str) -> None:
    metrics = {name: metrics[name].nan_to_num() for name in (IN, OUT) if name in metrics}
    if IN in metrics and not bool(metrics[IN].any()):
        hint = f" Does `encode` round? {USE_DIFFERENCES}" if what == "derivative" else ""
        state = Missing.NOT_DIFFERENTIABLE if what == "derivative" else Missing.DEGENERATE
        raise NotComputable(
            state, f"The code does not depend on the factors, because its {what} is 0 at every cell.{hint}"
        )
    if OUT in metrics and not bool(metrics[OUT].any()):
        if what == "derivative":
            raise NotComputable(
                Missing.NOT_DIFFERENTIABLE,
                "The derivative of the model's output with respect to every factor is 0 at every cell. The output is "
                "detached, rounded, of an integer type or constant, or all units are dead. If it changes from cell "
                f"to cell: {USE_DIFFERENCES}",
            )
        raise NotComputable(
            Missing.DEGENERATE,
            f"The model's output does not depend on the code: its {what} with respect to every factor is 0 at every "
            "cell. Check whether it is constant or all units are dead.",
        )


def _geometry(
    subject: Subject,
    metrics: dict[str, torch.Tensor],
    method: Literal["exact", "finite difference"],
    derivative_method: str | None,
    chunk: int,
) -> Geometry:
    layers = {
        name: LayerGeometry(name, subject.layers[name].units, subject.space.differentiable, metric.numpy())
        for name, metric in metrics.items()
    }
    return Geometry(subject.space, layers, method, derivative_method, chunk)
