"""What several studies ask of every layer of a run: probes, factorization, volume element; computed once per run.

found = look(run)
found.rows                       # a row per layer
found.volumes                    # layer → log₁₀ dv of every cell
found.warp                       # how the output's dv departs from that of the true images
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from recombine.core.holdouts import Holdout
from recombine.diagnostics.model.layers import IN, OUT
from recombine.diagnostics.numerics.geometry import Geometry, metric_tensor_exact, metric_tensor_finite_difference
from recombine.diagnostics.numerics.probes import SCORES, Probes, linear_probes
from recombine.runs.store import Store, StoredRun
from recombine.studies.framework.figure_style import SMALL, over_seeds, shades, tidy
from recombine.studies.framework.inference import rank_correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLAT = 0.05  # a map whose log₁₀ dv varies less than this is shown as even: rounding errors are no pattern


@dataclass(frozen=True, eq=False)
class Layerwise:
    """A run layer by layer.

    Attributes:
        rows: For each layer its number (0 is the code), name, kind (in, hidden, out), factorization in both ways from
            exact derivatives and from finite differences, mean log₁₀ dv on ID and OOD cells, and R² of the probes
            (mean over factors).
        volumes: Layer number → log₁₀ dv of every cell, from exact derivatives.
        warp: Of the output, see `warp`.
    """

    rows: list[dict[str, Any]]
    volumes: dict[int, Float[np.ndarray, " cell"]]
    warp: dict[str, float]


def look(run: StoredRun) -> Layerwise:
    """All of it. The last runs looked at are remembered, as long as their weights are the same."""
    return _look(run.path, run.facts["files"]["model/model.safetensors"])


@lru_cache(maxsize=512)
def _look(path: Path, weights: str) -> Layerwise:
    run = Store(path.parent).load(path.name)
    task = run.task
    exact = metric_tensor_exact(run.model, task.space, task.inputs)
    differences = metric_tensor_finite_difference(run.model, task.space, task.inputs)
    probes = linear_probes(run.model, task.space, task.inputs, task.holdout)
    rows = []
    for number, name in enumerate(exact.layers):
        kind = {IN: "in", OUT: "out"}.get(name, "hidden")
        rows.append({"layer": number, "name": name, "kind": kind, **_scores(exact, differences, name, task.holdout),
                     **_read_out(probes, name, task.space.names)})  # fmt: skip
    volumes = {number: layer.log_volume for number, layer in enumerate(exact.layers.values())}
    return Layerwise(rows, volumes, warp(exact[OUT].log_volume, true_log_volume(run), task.holdout))


def _scores(exact: Geometry, differences: Geometry, name: str, holdout: Holdout) -> dict[str, float]:
    layer, coarse = exact[name], differences[name]
    trained, held = holdout.id_mask.ravel(), holdout.ood_mask.ravel()
    return {
        "factorization": layer.factorization_pointwise().overall,
        "factorization_ratio_of_means": layer.factorization_ratio_of_means().overall,
        "factorization_ood": layer.factorization_pointwise(held).overall,
        "factorization_differences": coarse.factorization_pointwise().overall,
        "factorization_differences_ratio_of_means": coarse.factorization_ratio_of_means().overall,
        "log_volume": mean(layer.log_volume[held]) - mean(layer.log_volume[trained]),
    }


def _read_out(probes: Probes, name: str, factors: Sequence[str]) -> dict[str, float]:
    found = {score: [probes[name, factor, score].r2 for factor in factors] for score in SCORES}
    return {f"probe_{score}": float(np.mean(r2)) for score, r2 in found.items()}


def true_log_volume(run: StoredRun) -> Float[np.ndarray, " cell"]:
    """log₁₀ dv of the true images themselves: even inside the plane, less where images are cut at its border."""
    return metric_tensor_exact(run.task.targets, run.task.space)[OUT].log_volume


def warp(
    log_volume: Float[np.ndarray, " cell"], truth: Float[np.ndarray, " cell"], holdout: Holdout
) -> dict[str, float]:
    """How an output's dv departs from that of the true images, d = log₁₀ dv − log₁₀ dv of the truth.

    Returns:
        distortion_id, distortion_ood: Mean |d| over ID and OOD cells.
        warp: Mean d over OOD cells minus mean d over ID cells: negative if the hold-out is shrunk.
        roughness_ood: Mean of `neighbour_differences`.
        …_median: The same with medians, which single cells do not move.
    """
    d = log_volume - truth
    trained, held = d[holdout.id_mask.ravel()], d[holdout.ood_mask.ravel()]
    return {
        "distortion_id": mean(np.abs(trained)),
        "distortion_ood": mean(np.abs(held)),
        "warp": mean(held) - mean(trained),
        "distortion_id_median": middle(np.abs(trained)),
        "distortion_ood_median": middle(np.abs(held)),
        "warp_median": middle(held) - middle(trained),
        **roughness(log_volume, holdout),
    }


def roughness(log_volume: Float[np.ndarray, " cell"], holdout: Holdout) -> dict[str, float]:
    """Mean and median absolute difference of log₁₀ dv between neighbouring cells that are both held out."""
    plane = np.where(holdout.ood_mask, log_volume.reshape(holdout.space.shape), math.nan)
    steps = np.concatenate([np.abs(np.diff(plane, axis=axis)).ravel() for axis in range(plane.ndim)])
    return {"roughness_ood": mean(steps), "roughness_ood_median": middle(steps)}


def middle(values: Float[np.ndarray, "..."]) -> float:
    """Median without NaNs; NaN if there is nothing else."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan


def mean(values: Float[np.ndarray, "..."]) -> float:
    """Without NaNs; NaN if there is nothing else."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def before_output(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows from the code to the last hidden layer."""
    return [row for row in rows if row["kind"] != "out"]


def loss_of_factorization(rows: Sequence[dict[str, Any]], *, per_layer: bool = False) -> float:
    """F of the code minus F of the last hidden layer of one run."""
    kept = before_output(rows)
    return (kept[0]["factorization"] - kept[-1]["factorization"]) / (kept[-1]["layer"] if per_layer else 1)


def fall_of_factorization(rows: Sequence[dict[str, Any]]) -> float:
    """F of the code minus the lowest F of a hidden layer, F as in the original experiments."""
    scores = [row["factorization_differences_ratio_of_means"] for row in before_output(rows)]
    return scores[0] - min(scores[1:])


def trend(rows: Sequence[dict[str, Any]], column: str) -> float:
    """Spearman's rank correlation of a score with the layer number, code to last hidden layer; 0 for a constant."""
    kept = before_output(rows)
    return rank_correlation([row["layer"] for row in kept], [row[column] for row in kept])


def curves(
    ax: Axes, rows: Sequence[dict[str, Any]], column: str, depths: Sequence[int], *, label: str = "depth {}"
) -> None:
    """A score by layer, a line per depth, mean and range over seeds."""
    for depth, shade, marker in zip(depths, shades(len(depths)), "os^Dv<>Ph*" * 2):
        chosen = [row for row in rows if row["depth"] == depth]
        over_seeds(ax, chosen, "layer", column, colour=shade, marker=marker, label=label.format(depth))
    tidy(ax)
    ax.set_xticks(range(1 + max((row["layer"] for row in rows), default=0)))
    ax.set_xlabel("layer (0: code, last: image)", fontsize=SMALL)


def volume_maps(
    lines: dict[str, dict[int, Float[np.ndarray, " cell"]]], holdout: Callable[[str], Holdout], title: str
) -> Figure:
    """log₁₀ dv over the grid, a line of maps per entry and a column per layer, each map on its own scale.

    Args:
        lines: Label of the line → layer number → map.
        holdout: Label → hold-out to outline.
        title: Above all.
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
    figure.suptitle(f"{title}\neach map on its own scale, cut to its 1–99 % quantiles", fontsize=9)
    return figure


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(3)


def _layer_label(number: int, count: int) -> str:
    return "code" if number == 0 else "image" if number == count - 1 else f"layer {number}"
