"""Images of cells, and models side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from recombine.core.task import Task
from recombine.plotting.grids import hold_out, landscape, outline
from recombine.plotting.style import OUTLINE, new_figure


def show_image(
    ax: Axes,
    image: Float[np.ndarray, "row column"],
    label: str = "",
    *,
    held_out: bool = False,
    row_0: Literal["bottom", "top"] = "bottom",
    brightest: float = 1.0,
) -> None:
    """One image, framed in the outline's colour if its combination was held out; `row_0` as the scene has it.

    Brightness 0 … `brightest` is shown as its square root: what a failing decoder leaves is faint.
    """
    norm = PowerNorm(0.5, vmin=0, vmax=brightest, clip=True)
    origin = "lower" if row_0 == "bottom" else "upper"
    ax.imshow(image, cmap="gray", norm=norm, interpolation="nearest", origin=origin)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(label, fontsize=8)
    for spine in ax.spines.values():
        spine.set_color(OUTLINE if held_out else "0.6")
        spine.set_linewidth(1.5 if held_out else 0.8)


def comparison(
    task: Task,
    errors: Mapping[str, Float[np.ndarray, " cell"]],
    outputs: Mapping[str, Float[np.ndarray, "shown row column"]],
    truth: Float[np.ndarray, "shown row column"],
    cells: Sequence[int],
    titles: Mapping[str, str],
) -> Figure:
    """Models side by side: for each its error landscape and its outputs for the same cells, truth on top."""
    held = task.holdout.ood_mask.ravel()[list(cells)]
    limits = (max(min(e.min() for e in errors.values()), 1e-7), max(e.max() for e in errors.values()))
    width = 3.1 * (len(errors) + 1.35)
    pictures_height = max(1.15, 0.75 * width / (len(cells) + 1.5)) * (1 + len(errors))
    figure = new_figure(width, 3.0 + pictures_height)
    parts: Any = figure.subfigures(2, 1, height_ratios=[3.0, pictures_height])
    top, bottom = parts
    landscapes = top.subplots(1, len(errors) + 1)
    trained = hold_out(task.holdout, landscapes[0])
    trained.set_title(f"{task.holdout.n_ood} of {len(task.space)} pairs are\nnever trained on", fontsize=10)
    outline(task.holdout, trained)
    for ax, name in zip(landscapes[1:], errors):
        landscape(task.holdout, errors[name].reshape(task.space.shape), "mse", ax, limits, label="mean squared error")
        ax.set_title(titles[name], fontsize=10)
    for ax in landscapes:
        ax.set_box_aspect(1)
    pictures = bottom.subplots(1 + len(errors), len(cells), squeeze=False)
    for column, cell in enumerate(cells):
        label = task.space.label(cell)
        for row, image in enumerate([truth[column], *(outputs[name][column] for name in errors)]):
            style = {"held_out": bool(held[column]), "row_0": task.scene.row_0}
            show_image(pictures[row, column], image, label if row == 0 else "", **style)
    for row, name in enumerate(["truth", *errors]):
        pictures[row, 0].set_ylabel(name, rotation=0, ha="right", va="center")
    bottom.supxlabel("red frame: a pair never seen in training · brightness is shown as its square root", fontsize=8)
    return figure
