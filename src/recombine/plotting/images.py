"""Images of cells, and side-by-side comparisons of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.core.images import Row0, Tone, as_pictures, is_colour, tone_of
from recombine.core.task import Task
from recombine.plotting.grids import hold_out, landscape, outline
from recombine.plotting.style import BLUE, OUTLINE, new_figure

LONGEST = 16  # characters in a line above a picture
MOST_BARS = 40  # maximum entries of a vector that is drawn as bars


def show_output(
    ax: Axes,
    output: Float[np.ndarray, "..."],
    label: str = "",
    *,
    held_out: bool = False,
    row_0: Row0 = "bottom",
    tone: Tone | None = None,
    absent: str = "not finite",
) -> None:
    """Draw one output: a grey or coloured image, a vector as bars or as a line, or a single number.

    Args:
        ax: Where to draw.
        output: An array of shape (row, column), (channel, row, column) or (n,).
        label: Text above it.
        held_out: Whether to frame it in the outline's colour.
        row_0: Where row 0 of an image is, as defined by the scene.
        tone: How numbers map to brightness, or the limits of a vector's axis; by default for numbers from 0 to 1.
        absent: Text that replaces an output without a finite number.
    """
    tone = tone or Tone(power=1.0 if is_colour(output.shape) else 0.5)
    pictures = as_pictures(output[None])
    ax.set_xticks([])
    ax.set_yticks([])
    if not np.isfinite(output).any():
        _write(ax, absent)
    elif pictures is not None:
        origin = "lower" if row_0 == "bottom" else "upper"
        ax.imshow(tone(pictures[0]), cmap="gray", vmin=0, vmax=1, interpolation="nearest", origin=origin)
    elif output.size == 1:
        _write(ax, f"{output.item():.3g}")
    else:
        _draw_vector(ax, output.ravel(), tone)
    ax.set_title(wrapped(label), fontsize=8)
    for spine in ax.spines.values():
        spine.set_color(OUTLINE if held_out else "0.6")
        spine.set_linewidth(1.5 if held_out else 0.8)


def wrapped(label: str, longest: int = LONGEST) -> str:
    """Break a long label into lines after commas."""
    lines = [""]
    for part in label.split(", "):
        if lines[-1] and len(lines[-1]) + len(part) > longest:
            lines[-1] += ","
            lines.append("")
        lines[-1] += f", {part}" if lines[-1] else part
    return "\n".join(lines)


def _write(ax: Axes, text: str) -> None:
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color="0.35", fontsize=8)


def _draw_vector(ax: Axes, values: Float[np.ndarray, " n"], tone: Tone) -> None:
    if len(values) <= MOST_BARS:
        ax.bar(range(len(values)), values, width=0.8, color=BLUE)
    else:
        ax.plot(values, color=BLUE, lw=0.8)
    margin = 0.05 * (tone.high - tone.low)
    ax.set_ylim(tone.low - margin, tone.high + margin)
    ax.axhline(0, color="0.8", lw=0.5, zorder=0)


def comparison(
    task: Task,
    errors: Mapping[str, Float[np.ndarray, " cell"]],
    outputs: Mapping[str, Float[np.ndarray, "shown ..."]],
    truth: Float[np.ndarray, "shown ..."],
    cells: Sequence[int],
    titles: Mapping[str, str],
) -> Figure:
    """Draw models side by side: the error landscape of each, and its outputs for the same cells below the truth."""
    tone = tone_of(truth, task.scene.value_range)
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
        landscape(
            task.holdout,
            errors[name].reshape(task.space.shape),
            "mse",
            ax,
            limits,
            label="mean squared error",
            log=True,
        )
        ax.set_title(titles[name], fontsize=10)
    for ax in landscapes:
        ax.set_box_aspect(1)
    pictures = bottom.subplots(1 + len(errors), len(cells), squeeze=False)
    for column, cell in enumerate(cells):
        label = task.space.label(cell)
        for row, image in enumerate([truth[column], *(outputs[name][column] for name in errors)]):
            style = {"held_out": bool(held[column]), "row_0": task.scene.row_0, "tone": tone}
            show_output(pictures[row, column], image, label if row == 0 else "", **style)
    for row, name in enumerate(["truth", *errors]):
        pictures[row, 0].set_ylabel(name, rotation=0, ha="right", va="center")
    bottom.supxlabel(f"red frame: a pair never seen in training{tone_note(tone)}", fontsize=8)
    return figure


def tone_note(tone: Tone) -> str:
    """How brightness is shown, as an addition to a caption; empty if it is shown unchanged."""
    return " · brightness is shown as its square root" if tone.power == 0.5 else ""
