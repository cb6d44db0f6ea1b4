"""Figures by layer: curves of scores and maps of the volume element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from recombine.core.holdouts import Holdout
from recombine.studies.framework.figure_style import SMALL, over_seeds, shades, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLAT = 0.05  # maps whose log₁₀ dv varies by less are drawn uniformly, so that rounding errors form no pattern


def curves(
    ax: Axes, rows: Sequence[dict[str, Any]], column: str, depths: Sequence[int], *, label: str = "depth {}"
) -> None:
    """Plot a score by layer: one line per depth, mean and range over seeds."""
    for depth, shade, marker in zip(depths, shades(len(depths)), "os^Dv<>Ph*" * 2):
        chosen = [row for row in rows if row["depth"] == depth]
        over_seeds(ax, chosen, "layer", column, colour=shade, marker=marker, label=label.format(depth))
    tidy(ax)
    ax.set_xticks(range(1 + max((row["layer"] for row in rows), default=0)))
    ax.set_xlabel("layer (0: code, last: image)", fontsize=SMALL)


def volume_maps(
    lines: dict[str, dict[int, Float[np.ndarray, " cell"]]], holdout: Callable[[str], Holdout], title: str
) -> Figure:
    """Draw log₁₀ dv over the grid: one row of maps per entry, one column per layer, each map with its own scale.

    Args:
        lines: Label of the row → layer number → map.
        holdout: Label → hold-out to outline.
        title: Title of the figure.
    """
    from recombine.plotting.grids import grid_axes, outline
    from recombine.plotting.style import new_figure

    columns = max(len(maps) for maps in lines.values())
    figure = new_figure(1.62 * columns + 0.7, 1.55 * len(lines) + 0.75)
    axes = figure.subplots(len(lines), columns, squeeze=False)
    lowest = {column: row for row, maps in enumerate(lines.values()) for column in range(len(maps))}
    for row, (line, (label, maps)) in enumerate(zip(axes, lines.items())):
        split = holdout(label)
        across, up = split.space.names[:2]
        for ax in line[len(maps) :]:
            ax.axis("off")
        for column, (ax, (number, values)) in enumerate(zip(line, maps.items())):
            known = values[np.isfinite(values)]
            low, high = np.quantile(known, [0.01, 0.99]) if len(known) else (0.0, 1.0)
            if high - low < FLAT:
                low, high = (low + high - FLAT) / 2, (low + high + FLAT) / 2
            grid_axes(split.space, ax)
            ax.set_facecolor("0.85")
            plane = values.reshape(split.space.shape).T
            picture = ax.imshow(plane, origin="lower", cmap="viridis", vmin=low, vmax=high, interpolation="nearest")
            outline(split, ax, linewidths=1.0)
            ax.set_xticks([])
            ax.set_yticks([])
            ax.set_xlabel(across if lowest[column] == row else "", fontsize=SMALL)
            ax.set_ylabel(up, fontsize=SMALL, rotation=0, ha="right", va="center")
            bar = figure.colorbar(picture, ax=ax, shrink=0.85, pad=0.03)
            bar.ax.tick_params(labelsize=6)
            bar.locator = _few_ticks()
            bar.update_ticks()
            ax.set_title(_layer_label(number, len(maps)), fontsize=SMALL, pad=3)
        line[0].set_ylabel(f"{label}\n{up}", fontsize=SMALL, rotation=90, ha="center", va="bottom")
    figure.suptitle(f"{title}\neach map has its own scale, clipped to its 1–99 % quantiles", fontsize=9)
    return figure


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(3)


def _layer_label(number: int, count: int) -> str:
    return "code" if number == 0 else "image" if number == count - 1 else f"layer {number}"
