"""Figure elements shared by all studies: colours, labels, curves over seeds and images of cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.task import Task
from recombine.diagnostics.findings import PartResult
from recombine.runs.config import RunConfig
from recombine.runs.store import StoredRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALL = 8
BRIGHTNESS = "brightness 0 … 1 shown as its square root"


def seeds_note(seeds: Iterable[int]) -> str:
    """The number of distinct seeds as text, such as "3 seeds"."""
    count = len(set(seeds))
    return f"{count} {'seed' if count == 1 else 'seeds'}"


def task_of(config: Mapping[str, Any]) -> Task:
    """Build the task of a configuration that is stored in a study's facts."""
    return RunConfig.from_dict(config).task()


def cells_to_show(holdout: Holdout, ood: int, trained: int = 0) -> Int[Tensor, " cell"]:
    """Select `trained` ID cells followed by `ood` OOD cells, each spread evenly over their split."""
    return torch.cat([_evenly(holdout.id_cells, trained), _evenly(holdout.ood_cells, ood)])


def _evenly(cells: Int[Tensor, " cell"], count: int) -> Int[Tensor, " picked"]:
    return cells[((torch.arange(count) + 0.5) * len(cells) / max(count, 1)).long()]


def over_seeds(
    ax: Axes,
    rows: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    *,
    colour: str,
    marker: str = "o",
    label: str = "",
    **style: Any,
) -> None:
    """Plot the mean over seeds as a line, with the range over seeds shaded."""
    places = list(dict.fromkeys(row[x] for row in rows))
    groups = [[row[y] for row in rows if row[x] == place and np.isfinite(row[y])] for place in places]
    kept = [(place, group) for place, group in zip(places, groups) if group]
    if not kept:
        return
    at = [place for place, _ in kept]
    means = [float(np.mean(group)) for _, group in kept]
    ax.plot(at, means, color=colour, marker=marker, ms=3.5, lw=1.2, label=label, **style)
    ax.fill_between(at, [min(g) for _, g in kept], [max(g) for _, g in kept], color=colour, alpha=0.18, lw=0)


def shades(count: int) -> list[str]:
    """`count` colours for an ordered series, from dark to light."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in colormaps["viridis"](np.linspace(0, 0.88, max(count, 2)))]


def tidy(ax: Axes) -> None:
    """Style the axes of a curve: a faint grid and no box."""
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.tick_params(labelsize=SMALL)


def picture_rows(
    lines: Mapping[str, Float[np.ndarray, "shown row column"]],
    places: Float[np.ndarray, "shown factor"],
    held: Sequence[bool],
    note: str,
    *,
    size: float = 1.1,
    row_0: Literal["bottom", "top"] = "bottom",
) -> Figure:
    """Draw one row of images per entry of `lines`. A column shows the same cell in every row.

    Held-out cells have a red frame. The note below the figure also states how brightness is mapped.
    """
    from recombine.plotting.images import show_output
    from recombine.plotting.style import new_figure

    longest = max(len(part) for name in lines for part in name.splitlines())
    figure = new_figure(size * len(places) + 0.4 + 0.075 * longest, size * len(lines) + 0.65)
    axes = figure.subplots(len(lines), len(places), squeeze=False)
    for line, (name, images) in enumerate(lines.items()):
        for column, place in enumerate(places):
            label = ", ".join(f"{value:g}" for value in place) if line == 0 else ""
            show_output(axes[line, column], images[column], label, held_out=bool(held[column]), row_0=row_0)
        axes[line, 0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=SMALL)
    figure.supxlabel(f"{note} · {BRIGHTNESS}", fontsize=SMALL)
    return figure


def unseen_rows(
    lines: Mapping[str, Float[np.ndarray, "shown row column"]],
    space: FactorSpace,
    cells: Int[np.ndarray, " shown"],
    note: str,
    *,
    size: float = 1.1,
) -> Figure:
    """`picture_rows` of cells that are all held out."""
    places = space.values(torch.from_numpy(cells)).numpy()
    return picture_rows(lines, places, [True] * len(places), note, size=size)


def by_layer(part: PartResult, prefix: str) -> dict[int, Float[np.ndarray, "..."]]:
    """The arrays called `prefix` + layer number, by layer number."""
    found = {int(name.removeprefix(prefix)): a for name, a in part.arrays.items() if name.startswith(prefix)}
    return dict(sorted(found.items()))


def keep_samples(part: PartResult, name: str, run: StoredRun, shown: int) -> None:
    """Store a run's images of unseen cells as `outputs/name`, with `cells`, `truth` and the fact `config`.

    Only the first run of a name is stored. All runs of a part must have the same hold-out.
    """
    from recombine.scoring.outputs import render

    if f"outputs/{name}" in part.arrays:
        return
    cells = cells_to_show(run.task.holdout, shown)
    truth, outputs = render(run.model, run.task, cells)
    part.facts.setdefault("config", run.config.to_dict())
    part.arrays.update({"cells": cells.numpy(), "truth": truth, f"outputs/{name}": outputs})


def kept_samples(part: PartResult, note: str, *, label: str = "{}", size: float = 0.95) -> Figure:
    """Draw the truth above the images stored by `keep_samples`, one row per name."""
    space = task_of(part.facts["config"]).space
    lines = {label.format(name): images for name, images in part.by_layer("outputs").items()}
    lines = {"truth": part.arrays["truth"], **lines}
    return unseen_rows(lines, space, part.arrays["cells"], f"{note} · one seed", size=size)
