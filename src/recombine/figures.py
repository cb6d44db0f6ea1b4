"""Figures, drawn from arrays: nothing here trains. Colour maps are perceptually even and colour-blind safe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, PowerNorm
from matplotlib.figure import Figure
from torch import Tensor, nn

from recombine.diagnostics.scores import precision
from recombine.errors import InputError
from recombine.factors import FactorSpace
from recombine.holdouts import Holdout
from recombine.task import Task

OUTLINE = "#d7301f"
LABELS = {
    "mse": "mean squared error",
    "position_error": "position error (px)",
    "localized": "localized",
    "ssim": "SSIM",
}


def new_figure(width: float, height: float) -> Figure:
    """A figure of its own, outside pyplot's global state, so that library calls never leak windows."""
    return Figure(figsize=(width, height), layout="constrained")


def grid_axes(space: FactorSpace, ax: Axes | None) -> Axes:
    """Axes for a picture over the first two factors: positions inside, values on the labels."""
    if ax is None:
        ax = new_figure(4.2, 3.6).subplots()
    names = [*space.names[:2], ""][:2]
    for name, setter, label in zip(names, (ax.set_xticks, ax.set_yticks), (ax.set_xlabel, ax.set_ylabel)):
        if not name:
            setter([])
            continue
        factor = space.factors[name]
        ticks = np.unique(np.linspace(0, factor.size - 1, min(5, factor.size)).round().astype(int))
        setter(ticks, [f"{factor.low + factor.step * t:g}" for t in ticks])
        label(name)
    return ax


def outline(holdout: Holdout, ax: Axes, **style: Any) -> None:
    """Draw the border between trained and held-out cells over the first two factors.

    With more factors a cell counts as held out where any combination with it is.
    """
    mask = holdout.mask.reshape(-1, 1) if holdout.space.n_factors == 1 else holdout.mask
    held = np.pad(mask.any(axis=tuple(range(2, mask.ndim))), 1)
    across = [[(x - 0.5 - 1, y - 1 - 0.5), (x - 0.5 - 1, y - 1 + 0.5)] for x, y in _steps(held, 0)]
    along = [[(x - 1 - 0.5, y - 0.5 - 1), (x - 1 + 0.5, y - 0.5 - 1)] for x, y in _steps(held, 1)]
    look = {"colors": OUTLINE, "linewidths": 1.5, "capstyle": "projecting", **style}
    for under in ({"colors": "white", "linewidths": 2 * look["linewidths"]}, {}):  # red alone is lost on a red ground
        ax.add_collection(LineCollection(across + along, **{**look, **under}))


def _steps(held: np.ndarray, axis: int) -> list[tuple[int, int]]:
    """Indices (x, y) at which the mask differs from its predecessor along an axis."""
    changes = np.argwhere(np.diff(held, axis=axis))
    changes[:, axis] += 1
    return [(int(x), int(y)) for x, y in changes]


def landscape(
    holdout: Holdout,
    values: Float[np.ndarray, ...],
    metric: str = "mse",
    ax: Axes | None = None,
    limits: tuple[float, float] | None = None,
) -> Axes:
    """A metric over the first two factors (mean over the others), hold-out outlined; errors on a log scale."""
    ax = grid_axes(holdout.space, ax)
    plane = values.reshape(-1, 1) if values.ndim == 1 else values.mean(axis=tuple(range(2, values.ndim)))
    if metric == "mse":
        low, high = limits or (max(plane.min(), 1e-12), max(plane.max(), 2e-12))
        style: dict[str, Any] = {"norm": LogNorm(low, high), "cmap": "magma"}
        plane = plane.clip(min=low)
    else:
        low, high = limits or (None, None)
        style = {"vmin": low, "vmax": high, "cmap": "viridis"}
    picture = ax.imshow(plane.T, origin="lower", interpolation="nearest", aspect="auto", **style)
    others = ", ".join(holdout.space.names[2:])
    label = LABELS.get(metric, metric) + (f", mean over {others}" if others else "")
    ax.figure.colorbar(picture, ax=ax, label=label)
    outline(holdout, ax)
    return ax


def render(model: nn.Module, task: Task, cells: Int[Tensor, " cell"]) -> tuple[np.ndarray, np.ndarray]:
    """Truth and output images of cells."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    values = task.space.values(cells).to(device, precision(model))
    was_training = model.training
    try:
        with torch.no_grad():
            outputs = model.eval()(task.inputs(values))
    finally:
        model.train(was_training)
    return task.targets(values).cpu().numpy(), outputs.cpu().numpy()


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


def samples(model: nn.Module, task: Task, cells: Int[Tensor, " cell"]) -> Figure:
    """Truth above output for chosen cells; held-out ones are framed in red."""
    if task.inverse:
        raise InputError(
            "Samples show images, and this task goes from images to codes. Look at `scores.plot_landscape()` instead."
        )
    truth, outputs = render(model, task, cells)
    held = task.holdout.mask.ravel()[cells.numpy()]
    values = task.space.values(cells).tolist()
    figure = new_figure(1.2 * len(cells) + 0.6, 2.9)
    axes = figure.subplots(2, len(cells), squeeze=False)
    for column in range(len(cells)):
        place = ", ".join(f"{name}={v:g}" for name, v in zip(task.space.names, values[column]))
        style: dict[str, Any] = {"held_out": bool(held[column]), "row_0": task.scene.row_0}
        show_image(axes[0, column], truth[column], place, **style)
        show_image(axes[1, column], outputs[column], **style)
    axes[0, 0].set_ylabel("truth")
    axes[1, 0].set_ylabel("output")
    return figure


def comparison(
    task: Task,
    errors: Mapping[str, Float[np.ndarray, " cell"]],
    outputs: Mapping[str, Float[np.ndarray, "shown row column"]],
    truth: Float[np.ndarray, "shown row column"],
    cells: Sequence[int],
    titles: Mapping[str, str],
) -> Figure:
    """Models side by side: for each its error landscape and its outputs for the same cells, truth on top."""
    held = task.holdout.mask.ravel()[list(cells)]
    values = task.space.values(torch.tensor(cells)).tolist()
    limits = (max(min(e.min() for e in errors.values()), 1e-7), max(e.max() for e in errors.values()))
    width = 3.1 * (len(errors) + 1.35)
    pictures_height = max(1.15, 0.75 * width / (len(cells) + 1.5)) * (1 + len(errors))
    figure = new_figure(width, 3.0 + pictures_height)
    parts: Any = figure.subfigures(2, 1, height_ratios=[3.0, pictures_height])
    top, bottom = parts
    landscapes = top.subplots(1, len(errors) + 1)
    hold_out = task.holdout.plot(landscapes[0])
    hold_out.set_title(f"{task.holdout.n_ood} of {len(task.space)} pairs are\nnever trained on", fontsize=10)
    outline(task.holdout, hold_out)
    for ax, name in zip(landscapes[1:], errors):
        landscape(task.holdout, errors[name].reshape(task.space.shape), "mse", ax, limits)
        ax.set_title(titles[name], fontsize=10)
    for ax in landscapes:
        ax.set_box_aspect(1)
    pictures = bottom.subplots(1 + len(errors), len(cells), squeeze=False)
    for column, place in enumerate(values):
        label = ", ".join(f"{name}={v:g}" for name, v in zip(task.space.names, place))
        for row, image in enumerate([truth[column], *(outputs[name][column] for name in errors)]):
            style = {"held_out": bool(held[column]), "row_0": task.scene.row_0}
            show_image(pictures[row, column], image, label if row == 0 else "", **style)
    for row, name in enumerate(["truth", *errors]):
        pictures[row, 0].set_ylabel(name, rotation=0, ha="right", va="center")
    bottom.supxlabel("red frame: a pair never seen in training · brightness is shown as its square root", fontsize=8)
    return figure
