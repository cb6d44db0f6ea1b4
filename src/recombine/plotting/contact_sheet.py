"""Contact sheets, which show what each factor of a data set does to its pictures."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from recombine.core.datasets import Dataset
from recombine.core.images import image_axes, is_colour
from recombine.plotting.style import HATCH, new_figure

MOST = 10  # maximum number of shown values of a factor
GAP = 1  # pixels between pictures


def contact_sheet(dataset: Dataset) -> Figure:
    """Draw one row per factor with pictures over its values; the other factors are fixed at those of the middle
    picture.

    A value without a picture is hatched.
    """
    middle = torch.from_numpy(dataset.positions[len(dataset) // 2].astype(np.int64))
    factors = dataset.space.factors
    figure = new_figure(1.0 * min(MOST, max(f.size for f in factors.values())) + 1.6, 1.25 * len(factors))
    axes = figure.subplots(len(factors), 1, squeeze=False)[:, 0]
    sizes = torch.tensor(dataset.space.shape)
    strides = torch.flip(torch.cumprod(torch.flip(sizes, [0]), 0), [0]) // sizes
    for axis, (name, factor) in enumerate(factors.items()):
        places = np.unique(np.linspace(0, factor.size - 1, min(MOST, factor.size)).round().astype(int))
        tiles = []
        for place in places:
            position = middle.clone()
            position[axis] = int(place)
            cell = (position * strides).sum()
            shown = bool(dataset.counts[cell])
            tiles.append(_tile(dataset.pictures(dataset.first(cell[None]))[0].numpy()) if shown else None)
        _show_row(axes[axis], tiles, [factor.labels[place] for place in places], name)
    return figure


def _tile(picture: Float[np.ndarray, "..."]) -> Float[np.ndarray, "row column colour"]:
    """A picture as (row, column, 3). A vector becomes one row; non-colour pictures show their first channel."""
    shape = picture.shape
    if is_colour(shape):
        return np.moveaxis(picture[:3], 0, -1)
    axes = image_axes(shape)
    plane = picture.reshape(1, -1) if axes is None else picture.reshape(axes)[0]
    return np.repeat(plane[..., None], 3, axis=-1)


def _show_row(ax: Axes, tiles: list[np.ndarray | None], labels: list[str], name: str) -> None:
    rows, columns, _ = next(tile.shape for tile in tiles if tile is not None)
    sheet = np.ones((rows, len(tiles) * (columns + GAP) - GAP, 3))
    for i, tile in enumerate(tiles):
        if tile is not None:
            sheet[:, i * (columns + GAP) : i * (columns + GAP) + columns] = tile
        else:
            corner = (i * (columns + GAP) - 0.5, -0.5)
            ax.add_patch(Rectangle(corner, columns, rows, facecolor="none", edgecolor=HATCH, hatch="////", linewidth=0))
    ax.imshow(sheet.clip(0, 1), interpolation="nearest", aspect="equal" if rows > 1 else "auto")
    ax.set_xticks([i * (columns + GAP) + (columns - 1) / 2 for i in range(len(tiles))], labels, fontsize=7)
    ax.set_yticks([])
    ax.set_anchor("W")
    ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    for spine in ax.spines.values():
        spine.set_visible(False)
