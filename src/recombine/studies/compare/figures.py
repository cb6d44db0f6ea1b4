"""Figures of a comparison, drawn from its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.plotting.style import COLOURS, MARKERS, new_figure
from recombine.studies.compare.results import Status, learnt, means

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]
LEAST_HALF = 3.0  # the axis of times reaches at least from a third to three times of their middle
MOST_LETTERS = 11  # of a name that fits beside the next column
LEAST_ERROR = 1e-8  # of the variance, in plots


def heat_map(rows: Rows) -> Figure:
    """Heat map of the share of correct unseen cells, with one row per remedy and one column per (scene, split).

    A dash marks a remedy that was left out, a cross a remedy whose runs failed, and a circle a remedy that has not
    learnt its trained cells with most of its seeds.
    """
    shares, trained = means(rows, "right"), learnt(rows)
    failed = {(row["remedy"], row["scene"], row["split"]) for row in rows if row["status"] == Status.FAILED}
    remedies = list(dict.fromkeys((row["block"], row["remedy"]) for row in rows))
    remedies.sort(key=lambda pair: pair[0])  # stable sort: blocks stay together
    tasks = list(dict.fromkeys((row["scene"], row["split"]) for row in rows))
    values = np.array([[shares.get((remedy, *task), np.nan) for task in tasks] for _, remedy in remedies])
    figure = new_figure(2.2 + 0.75 * len(tasks), 1.6 + 0.32 * len(remedies))
    axes = figure.subplots()
    axes.set_facecolor("0.85")
    image = axes.imshow(values, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        place = (remedies[i][1], *tasks[j])
        if np.isnan(value):
            text, colour = "×" if place in failed else "–", "0.4"
        else:
            text = f"{value:.2f}" + ("°" if trained[place] < 0.5 else "")
            colour = "white" if value < 0.6 else "black"
        axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=8)
    longest = max(len(name) for task in tasks for name in task)
    axes.set_xticks(
        range(len(tasks)), [f"{scene}\n{split}" for scene, split in tasks], fontsize=8 if longest <= MOST_LETTERS else 6
    )
    axes.set_yticks(range(len(remedies)), [remedy for _, remedy in remedies], fontsize=8)
    blocks = [block for block, _ in remedies]
    for i in range(1, len(blocks)):
        if blocks[i] != blocks[i - 1]:
            axes.axhline(i - 0.5, color="white", linewidth=3)
    scenes = [scene for scene, _ in tasks]
    for j in range(1, len(scenes)):
        if scenes[j] != scenes[j - 1]:
            axes.axvline(j - 0.5, color="white", linewidth=2)
    axes.set_title("Share of correct unseen cells (mean over seeds; – skipped, × failed, ° not learnt)", fontsize=9)
    figure.colorbar(image, ax=axes, fraction=0.03)
    return figure


def errors(rows: Rows) -> Figure:
    """Scatter plot of OOD error against ID error, with one marker per remedy and one panel per split.

    Errors below `LEAST_ERROR` are drawn there.
    """
    done = [row for row in rows if row["id_error"] is not None and row["ood_error"] is not None]
    splits = list(dict.fromkeys(row["split"] for row in rows))
    names = list(dict.fromkeys(row["remedy"] for row in rows))
    figure = new_figure(1.8 + 3 * len(splits), 3.4)
    panels = figure.subplots(1, len(splits), squeeze=False, sharex=True, sharey=True)[0]
    for axes, split in zip(panels, splits):
        for i, name in enumerate(names):
            here = [row for row in done if (row["split"], row["remedy"]) == (split, name)]
            marker, colour = MARKERS[i // len(COLOURS) % len(MARKERS)], COLOURS[i % len(COLOURS)]
            pairs = [[max(r[name], LEAST_ERROR) for r in here] for name in ("id_error", "ood_error")]
            axes.plot(*pairs, marker, color=colour, markersize=5, alpha=0.8, label=name)
        if done:
            ends = [
                max(end, LEAST_ERROR) for end in (min(r["id_error"] for r in done), max(r["ood_error"] for r in done))
            ]
            axes.plot(ends, ends, color="0.6", linewidth=0.8)
        exact = any(min(r["id_error"], r["ood_error"]) < LEAST_ERROR for r in done)
        note = f"\n(errors below {LEAST_ERROR:.0e} are drawn there)" if exact else ""
        axes.set(xscale="log", yscale="log", title=split, xlabel=f"ID error / variance{note}")
        _decades(axes, "xy")
    panels[0].set_ylabel("OOD error / variance")
    panels[-1].legend(fontsize=6, loc="center left", bbox_to_anchor=(1.02, 0.5), ncols=1 + len(names) // 16)
    return figure


def cost(rows: Rows) -> Figure:
    """Scatter plot of the mean share of correct unseen cells against training time, with one point per remedy.

    A remedy that is not compared on all scenes and splits has their number in its label.
    """
    figure = new_figure(7.0, 4.6)
    axes = figure.subplots()
    tasks = {(row["scene"], row["split"]) for row in rows}
    points: list[tuple[float, float, str]] = []
    for i, name in enumerate(dict.fromkeys(row["remedy"] for row in rows)):
        here = [r for r in rows if r["remedy"] == name and r["status"] == Status.DONE and r["right"] is not None]
        if here:
            seconds, share = (float(np.mean([row[column] for row in here])) for column in ("seconds", "right"))
            axes.plot([seconds], [share], MARKERS[i // len(COLOURS) % len(MARKERS)], color=COLOURS[i % len(COLOURS)])
            count = len({(row["scene"], row["split"]) for row in here})
            points.append((seconds, share, name if count == len(tasks) else f"{name} ({count} of {len(tasks)})"))
    for (seconds, share, label), height in zip(points, _apart(points)):
        axes.annotate(label, (seconds, share), xytext=(1.07 * seconds, height), fontsize=6.5, va="center",
                      arrowprops={"arrowstyle": "-", "color": "0.7", "linewidth": 0.5})  # fmt: skip
    times = [seconds for seconds, _, _ in points]
    middle, half = math.sqrt(max(times) * min(times)), max(math.sqrt(max(times) / min(times)), LEAST_HALF)
    axes.set_xlim(middle / half / 1.3, middle * half * 2)  # labels are to the right of the points
    axes.set(xscale="log", ylim=(-0.05, 1.08), xlabel="training time per run (s, mean)",
             ylabel="share of correct unseen cells (mean)")  # fmt: skip
    _decades(axes, "x")
    return figure


def _apart(points: Sequence[tuple[float, float, str]], gap: float = 0.035, near: float = 1.9) -> list[float]:
    """Heights of the labels of points (x, y, label), so that labels of points with similar x do not overlap."""
    heights: dict[int, float] = {}
    for i in sorted(range(len(points)), key=lambda i: points[i][1]):
        height = points[i][1]
        taken = sorted(h for j, h in heights.items() if 1 / near < points[j][0] / points[i][0] < near)
        for other in taken:
            if abs(other - height) < gap:
                height = other + gap
        heights[i] = height
    return [heights[i] for i in range(len(points))]


def _decades(axes: Any, which: str) -> None:
    """Put ticks at the decades of logarithmic axes, and at twice and five times them if an axis spans less than one."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    for name in which:
        axis, (low, high) = getattr(axes, f"{name}axis"), getattr(axes, f"get_{name}lim")()
        wide = high / low > 100
        axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
        if not wide:
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())


def rank_chart(ranked: Sequence[Mapping[str, Any]]) -> Figure:
    """Mean rank of each remedy with its interval over seeds. Rank 1 is best."""
    figure = new_figure(5.0, 1 + 0.3 * max(1, len(ranked)))
    axes = figure.subplots()
    for i, row in enumerate(ranked):
        if row["low"] is not None:
            axes.plot([row["low"], row["high"]], [i, i], color="0.5", linewidth=2)
        axes.plot([row["mean_rank"]], [i], "o", color=COLOURS[0])
    axes.set_yticks(range(len(ranked)), [row["remedy"] for row in ranked], fontsize=8)
    axes.invert_yaxis()
    shown = any(row["low"] is not None for row in ranked)
    axes.set_xlabel("mean rank over scenes and splits" + (", 95 % interval over seeds" if shown else " (one seed)"))
    axes.set_xlim(0.5, max(len(ranked), 2) + 0.5)
    return figure
