"""What the figures of several parts share: maps over the grid, outputs as pictures, axes by layer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from recombine.plotting.grids import grid_axes, outline
from recombine.plotting.style import COLOURS, new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

MISSING = "0.85"
MOST_COLUMNS = 6


def panel_grid(panels: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with enough panels, at most six in a row and rows of equal length; spare ones are removed."""
    rows = math.ceil(panels / MOST_COLUMNS)
    columns = math.ceil(panels / rows)
    figure = new_figure(width * columns, height * rows)
    axes = list(np.atleast_1d(figure.subplots(rows, columns)).flat)
    for ax in axes[panels:]:
        ax.remove()
    return figure, axes[:panels]


def plane(values: np.ndarray) -> np.ndarray:
    """Over the first two factors, as an image: mean over the others, NaNs left out."""
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
    if outlined and diagnosis.holdout is not None:
        outline(diagnosis.holdout, ax)
    return picture


def without_ticks(ax: Axes) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_xlabel("")
    ax.set_ylabel("")


def averaged_factors(diagnosis: Diagnosis) -> str:
    """What a map over the first two factors says of the others."""
    others = diagnosis.space.names[2:]
    return f"; maps are means over {', '.join(others)}" if others else ""


def as_image(array: np.ndarray) -> np.ndarray | None:
    """An output as a picture (row, column) or (row, column, 3), axes of length 1 left out; None if it is none."""
    array = array.squeeze()
    if array.ndim == 3 and array.shape[0] == 3 != array.shape[2]:
        array = np.moveaxis(array, 0, 2)
    grey, colour = array.ndim == 2, array.ndim == 3 and array.shape[2] == 3
    return array if (grey or colour) and min(array.shape[:2]) > 1 else None


def draw_output(ax: Axes, array: np.ndarray, norm: Normalize) -> None:
    """One output: as a picture, a curve, or a number."""
    image = as_image(array)
    if not np.isfinite(array).all():
        ax.text(0.5, 0.5, "none", transform=ax.transAxes, ha="center", va="center", color="0.5", fontsize=8)
    elif image is not None and image.ndim == 3:
        ax.imshow(Normalize(norm.vmin, norm.vmax, clip=True)(image), interpolation="nearest")
    elif image is not None:
        ax.imshow(image, cmap="gray", norm=norm, origin="lower", interpolation="nearest")
    elif array.size == 1:
        ax.text(0.5, 0.5, f"{array.item():.3g}", transform=ax.transAxes, ha="center", va="center", fontsize=8)
    else:
        ax.plot(array.ravel(), color=COLOURS[0], lw=0.8)
        if norm.vmin != norm.vmax:
            ax.set_ylim(norm.vmin, norm.vmax)
    without_ticks(ax)


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
