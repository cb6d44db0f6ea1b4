"""Helpers for the figures of several parts: maps over the grid, axes by layer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.plotting.grids import grid_axes, hatch_unavailable, outline
from recombine.plotting.style import new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

MISSING = "0.85"
MOST_COLUMNS = 6


def panel_grid(panels: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels, at most six per row in rows of equal length; unused panels are removed."""
    rows = math.ceil(panels / MOST_COLUMNS)
    columns = math.ceil(panels / rows)
    figure = new_figure(width * columns, height * rows)
    axes = list(np.atleast_1d(figure.subplots(rows, columns)).flat)
    for ax in axes[panels:]:
        ax.remove()
    return figure, axes[:panels]


def plane(values: np.ndarray) -> np.ndarray:
    """An image over the first two factors: the mean over the other factors, without NaNs."""
    if values.ndim == 1:
        return values.reshape(1, -1)
    kept = ~np.isnan(values)
    others = tuple(range(2, values.ndim))
    counts = kept.sum(axis=others)
    total = np.where(kept, values, 0).sum(axis=others)
    return np.divide(total, counts, out=np.full(counts.shape, np.nan), where=counts > 0).T


def map_over_grid(diagnosis: Diagnosis, values: np.ndarray, ax: Axes, *, outlined: bool = True, **style: Any) -> Any:
    grid_axes(diagnosis.space, ax)
    ax.set_facecolor(MISSING)
    picture = ax.imshow(plane(values), origin="lower", interpolation="nearest", aspect="auto", **style)
    ax.set_box_aspect(1)
    if diagnosis.holdout is not None:
        hatch_unavailable(diagnosis.holdout, ax)
        if outlined:
            outline(diagnosis.holdout, ax)
    return picture


def without_ticks(ax: Axes) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_xlabel("")
    ax.set_ylabel("")


def averaged_factors(diagnosis: Diagnosis) -> str:
    """Describes how a map over the first two factors treats the others."""
    others = diagnosis.space.names[2:]
    return f"; maps are means over {', '.join(others)}" if others else ""


def short_name(name: str) -> str:
    return name if len(name) <= 22 else "…" + name[-21:]


def style_layer_axis(ax: Axes, layers: tuple[str, ...], ylabel: str) -> None:
    every = math.ceil(len(layers) / 12)
    shown = range(0, len(layers), every)
    ax.set_xticks(
        shown, [short_name(layers[i]) for i in shown], rotation=55, ha="right", rotation_mode="anchor", fontsize=8
    )
    ax.set_ylabel(ylabel)
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def column_by_layer(diagnosis: Diagnosis, rows: list[dict[str, Any]], column: str) -> list[float]:
    found = {row["layer"]: row[column] for row in rows}
    return [found.get(name, math.nan) for name in diagnosis.layers]
