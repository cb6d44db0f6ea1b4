"""Plots over the factor grid: axes with values or labels, the hold-out and its outline, the landscape of a metric."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LogNorm

from recombine.core.factors import Factor, FactorSpace
from recombine.core.holdouts import Holdout
from recombine.plotting.style import HATCH, OUTLINE, new_figure

MOST_TICKS = 5  # for factors with evenly spaced numbers
MOST_NAMED = 12  # up to this many values, other factors get a label each
LONG = 12  # labels are rotated beyond this total number of characters


def grid_axes(space: FactorSpace, ax: Axes | None) -> Axes:
    """Prepare axes over the first two factors: data coordinates are grid positions, tick labels are values."""
    if ax is None:
        ax = new_figure(4.2, 3.6).subplots()
    names = [*space.names[:2], ""][:2]
    for name, setter, label in zip(names, (ax.set_xticks, ax.set_yticks), (ax.set_xlabel, ax.set_ylabel)):
        if not name:
            setter([])
            continue
        factor = space.factors[name]
        ticks = label_positions(factor)
        texts = [factor.labels[t] for t in ticks]
        turned = setter == ax.set_xticks and factor.categorical and sum(map(len, texts)) > LONG
        setter(ticks, texts, **({"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if turned else {}))
        label(name)
    return ax


def label_positions(factor: Factor) -> Int[np.ndarray, " tick"]:
    """Positions that get a label: all of a labelled or unequally spaced factor while there is room, else some."""
    named = factor.categorical or factor.listed is not None
    most = MOST_NAMED if named and factor.size <= MOST_NAMED else MOST_TICKS
    return np.unique(np.linspace(0, factor.size - 1, min(most, factor.size)).round().astype(int))


def hold_out(holdout: Holdout, ax: Axes | None = None) -> Axes:
    """Draw a hold-out over the first two factors. The shade is the held-out share; unavailable cells are hatched."""
    ax = grid_axes(holdout.space, ax)
    ax.imshow(holdout.share().T, origin="lower", cmap="Greys", vmin=0, vmax=1.6, aspect="auto")
    hatch_unavailable(holdout, ax)
    gone = f",\n{holdout.n_unavailable} unavailable" if holdout.n_unavailable else ""
    ax.set_title(f"{holdout.n_ood} of {len(holdout.space) - holdout.n_unavailable} cells held out{gone}")
    return ax


def hatch_unavailable(holdout: Holdout, ax: Axes) -> None:
    """Hatch the cells over the first two factors for which no combination with the others is available."""
    missing = np.argwhere(np.isnan(holdout.share()))
    corners = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
    if len(missing):
        cells = [cell + corners for cell in missing]
        style: dict[str, Any] = {"facecolors": "none", "edgecolors": HATCH, "linewidths": 0.0, "hatch": "////"}
        ax.add_collection(PolyCollection(cells, **style))


def outline(holdout: Holdout, ax: Axes, **style: Any) -> None:
    """Draw the border between trained and held-out cells over the first two factors.

    With more factors, a cell counts as held out if any combination with it is.
    """
    mask = holdout.ood_mask.reshape(-1, 1) if holdout.space.n_factors == 1 else holdout.ood_mask
    held = np.pad(mask.any(axis=tuple(range(2, mask.ndim))), 1)
    across = [[(x - 0.5 - 1, y - 1 - 0.5), (x - 0.5 - 1, y - 1 + 0.5)] for x, y in _steps(held, 0)]
    along = [[(x - 1 - 0.5, y - 0.5 - 1), (x - 1 + 0.5, y - 0.5 - 1)] for x, y in _steps(held, 1)]
    look = {"colors": OUTLINE, "linewidths": 1.5, "capstyle": "projecting", **style}
    for under in (
        {"colors": "white", "linewidths": 2 * look["linewidths"]},
        {},
    ):  # red alone is invisible on a red background
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
    log: bool = False,
) -> Axes:
    """Draw a metric over the first two factors and outline the hold-out.

    With more factors, the mean over the others is drawn: inside the outline of held-out cells only, outside of trained
    ones. Unavailable cells are left out; positions without available cells are hatched.
    """
    ax = grid_axes(holdout.space, ax)
    plane = _plane(holdout, values)
    if log:
        low, high = limits or (max(np.nanmin(plane), 1e-12), max(np.nanmax(plane), 2e-12))
        style: dict[str, Any] = {"norm": LogNorm(low, high), "cmap": "magma"}
        plane = plane.clip(min=low)
    else:
        low, high = limits or (None, None)
        style = {"vmin": low, "vmax": high, "cmap": "viridis"}
    picture = ax.imshow(plane.T, origin="lower", interpolation="nearest", aspect="auto", **style)
    others = ", ".join(holdout.space.names[2:])
    label = (label or metric) + (f", mean over {others}\n(outlined: of held-out cells only)" if others else "")
    ax.figure.colorbar(picture, ax=ax, label=label)
    hatch_unavailable(holdout, ax)
    outline(holdout, ax)
    return ax


def _plane(holdout: Holdout, values: Float[np.ndarray, ...]) -> Float[np.ndarray, "first second"]:
    """The mean over all factors but the first two: over held-out cells where there are any, else over trained ones; NaN
    where no cell is available."""
    values = values.reshape(-1, 1) if values.ndim == 1 else values
    others = tuple(range(2, values.ndim))
    held, exist = (mask.reshape(values.shape) for mask in (holdout.ood_mask, holdout.available))
    chosen = np.where(held.any(axis=others, keepdims=True), held, exist)
    counted = chosen.sum(axis=others)
    total = np.where(chosen, values, 0.0).sum(axis=others)
    return np.divide(total, counted, out=np.full(counted.shape, np.nan), where=counted > 0)
