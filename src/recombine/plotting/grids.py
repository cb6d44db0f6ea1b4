"""Pictures over the factor grid: axes in factor values, the hold-out and its outline, a metric's landscape."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm

from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.plotting.style import OUTLINE, new_figure

LOGARITHMIC = ("mse", "relative_error")  # metrics on a log scale


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
        setter(ticks, [factor.labels[t] for t in ticks])
        label(name)
    return ax


def hold_out(holdout: Holdout, ax: Axes | None = None) -> Axes:
    """Draw a hold-out over the first two factors; shade is the share of cells held out."""
    ax = grid_axes(holdout.space, ax)
    ax.imshow(holdout.share().T, origin="lower", cmap="Greys", vmin=0, vmax=1.6, aspect="auto")
    ax.set_title(f"{holdout.n_ood} of {len(holdout.space)} cells held out")
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
    *,
    label: str = "",
) -> Axes:
    """A metric over the first two factors (mean over the others), hold-out outlined; errors on a log scale."""
    ax = grid_axes(holdout.space, ax)
    plane = values.reshape(-1, 1) if values.ndim == 1 else values.mean(axis=tuple(range(2, values.ndim)))
    if metric in LOGARITHMIC:
        low, high = limits or (max(plane.min(), 1e-12), max(plane.max(), 2e-12))
        style: dict[str, Any] = {"norm": LogNorm(low, high), "cmap": "magma"}
        plane = plane.clip(min=low)
    else:
        low, high = limits or (None, None)
        style = {"vmin": low, "vmax": high, "cmap": "viridis"}
    picture = ax.imshow(plane.T, origin="lower", interpolation="nearest", aspect="auto", **style)
    others = ", ".join(holdout.space.names[2:])
    label = (label or metric) + (f", mean over {others}" if others else "")
    ax.figure.colorbar(picture, ax=ax, label=label)
    outline(holdout, ax)
    return ax
