"""Plot of a metric over a setting, drawn from the rows of a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from recombine.plotting.style import COLOURS, MARKERS, new_figure
from recombine.scoring.intervals import bootstrap_interval
from recombine.scoring.scores import on_log_scale


def plot(rows: Sequence[Mapping[str, Any]], x: str, y: str, by: str | None, ax: Axes | None) -> Axes:
    """Plot means with 95 % intervals, and a faint point per run."""
    ax = ax if ax is not None else new_figure(4.6, 3.6).subplots()
    used = [row for row in rows if row.get(y) is not None]
    places = _places([row.get(x) for row in used])
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for row in used:
        lines.setdefault(_text(row.get(by)) if by else "", []).append(row)
    for i, (name, line) in enumerate(lines.items()):
        style: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
        ax.scatter([places[_text(r.get(x))] for r in line], [r[y] for r in line], s=10, alpha=0.35, **style)
        at = sorted({places[_text(r.get(x))] for r in line})
        groups = [np.array([r[y] for r in line if places[_text(r.get(x))] == place], dtype=float) for place in at]
        means = np.array([group.mean() for group in groups])
        ends = np.array([bootstrap_interval(group) if len(group) > 1 else (group[0], group[0]) for group in groups])
        ax.errorbar(at, means, yerr=np.abs(ends.T - means), capsize=3, linewidth=1.2, label=name or None, **style)
    if any(isinstance(row.get(x), str) or row.get(x) is None for row in used):
        ax.set_xticks(list(places.values()), list(places))
    if on_log_scale(y.removeprefix("id_").removeprefix("ood_")) and all(row[y] > 0 for row in used):
        ax.set_yscale("log")
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_title("Mean and 95 % interval over seeds; one point per run", fontsize=9)
    if by:
        ax.legend(title=by, fontsize=8)
    return ax


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _places(values: Sequence[Any]) -> dict[str, float]:
    """Positions of values on the axis: numbers at their value, anything else in the order of the table."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return {_text(value): float(value) for value in values}
    return {name: float(i) for i, name in enumerate(dict.fromkeys(map(_text, values)))}
