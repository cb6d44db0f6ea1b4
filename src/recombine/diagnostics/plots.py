"""The figure of each part of a diagnosis, drawn from its tables and arrays: nothing here runs a model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure

from recombine.core.errors import InputError
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.numerics.kernels import binary_factorized_kernel
from recombine.plotting.grids import grid_axes, landscape, outline
from recombine.plotting.style import COLOURS, OUTLINE, SKY, new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

MISSING = "0.85"
SCORE_LABELS = {"in_sample": "in sample", "id_to_ood": "ID → OOD", "ridge_cv": "ridge, within ID",
                "ridge_ood": "ridge, ID → OOD"}  # fmt: skip
SIMILARITY_LABELS = {"cosine": "cosine", "l2": "L2 distance", "overlap": "pixel overlap"}
MOST_COLUMNS = 6
MOST_CURVES = 12  # layers with their own tuning maps


def plot(diagnosis: Diagnosis, part: str) -> Figure:
    """The figure of a part; an error that says why if it is missing."""
    found = diagnosis[part]
    found.table()  # raises if missing
    return _PLOTS[part](diagnosis, found)


def _grid(panels: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with enough panels, at most six in a row and rows of equal length; spare ones are removed."""
    rows = math.ceil(panels / MOST_COLUMNS)
    columns = math.ceil(panels / rows)
    figure = new_figure(width * columns, height * rows)
    axes = list(np.atleast_1d(figure.subplots(rows, columns)).flat)
    for ax in axes[panels:]:
        ax.remove()
    return figure, axes[:panels]


def _plane(values: np.ndarray) -> np.ndarray:
    """Over the first two factors, as an image: mean over the others, NaNs left out."""
    if values.ndim == 1:
        return values.reshape(1, -1)
    kept = ~np.isnan(values)
    others = tuple(range(2, values.ndim))
    counts = kept.sum(axis=others)
    total = np.where(kept, values, 0).sum(axis=others)
    return np.divide(total, counts, out=np.full(counts.shape, np.nan), where=counts > 0).T


def _map(diagnosis: Diagnosis, values: np.ndarray, ax: Axes, *, outlined: bool = True, **style: Any) -> Any:
    grid_axes(diagnosis.space, ax)
    ax.set_facecolor(MISSING)
    picture = ax.imshow(_plane(values), origin="lower", interpolation="nearest", aspect="auto", **style)
    ax.set_box_aspect(1)
    if outlined and diagnosis.holdout is not None:
        outline(diagnosis.holdout, ax)
    return picture


def _bare(ax: Axes) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_xlabel("")
    ax.set_ylabel("")


def _averaged(diagnosis: Diagnosis) -> str:
    """What a map over the first two factors says of the others."""
    others = diagnosis.space.names[2:]
    return f"; maps are means over {', '.join(others)}" if others else ""


def _image(array: np.ndarray) -> np.ndarray | None:
    """An output as a picture (row, column) or (row, column, 3), axes of length 1 left out; None if it is none."""
    array = array.squeeze()
    if array.ndim == 3 and array.shape[0] == 3 != array.shape[2]:
        array = np.moveaxis(array, 0, 2)
    grey, colour = array.ndim == 2, array.ndim == 3 and array.shape[2] == 3
    return array if (grey or colour) and min(array.shape[:2]) > 1 else None


def _draw(ax: Axes, array: np.ndarray, norm: Normalize) -> None:
    """One output: as a picture, a curve, or a number."""
    image = _image(array)
    if not np.isfinite(array).all():
        ax.text(0.5, 0.5, "none", transform=ax.transAxes, ha="center", va="center", color="0.5", fontsize=8)
    elif image is not None and image.ndim == 3:
        ax.imshow(Normalize(norm.vmin, norm.vmax, clip=True)(image), interpolation="nearest")
    elif image is not None:
        ax.imshow(image, cmap="gray", norm=norm, origin="lower", interpolation="nearest")
    elif array.size == 1:
        ax.text(0.5, 0.5, f"{array.item():.3g}", transform=ax.transAxes, ha="center", va="center", fontsize=8)
    else:
        ax.plot(array.ravel(), color=COLOURS[0], lw=0.8)
        if norm.vmin != norm.vmax:
            ax.set_ylim(norm.vmin, norm.vmax)
    _bare(ax)


def _short(name: str) -> str:
    return name if len(name) <= 22 else "…" + name[-21:]


def _curves_axes(ax: Axes, layers: tuple[str, ...], ylabel: str) -> None:
    every = math.ceil(len(layers) / 12)
    shown = range(0, len(layers), every)
    ax.set_xticks(
        shown, [_short(layers[i]) for i in shown], rotation=55, ha="right", rotation_mode="anchor", fontsize=8
    )
    ax.set_ylabel(ylabel)
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _by_layer(diagnosis: Diagnosis, rows: list[dict[str, Any]], column: str) -> list[float]:
    found = {row["layer"]: row[column] for row in rows}
    return [found.get(name, math.nan) for name in diagnosis.layers]


def _outputs(diagnosis: Diagnosis, part: PartResult) -> Figure:
    """A few cells, spread over the trained and the held-out ones: truth above output."""
    held = np.zeros(len(diagnosis.space), bool) if diagnosis.holdout is None else diagnosis.holdout.mask.ravel()
    chosen = np.concatenate([cells[np.linspace(0, len(cells) - 1, 4).astype(int)]
                             for cells in (np.flatnonzero(~held), np.flatnonzero(held)) if len(cells)])  # fmt: skip
    shown = {key: part.arrays[key][chosen] for key in ("truth", "output") if key in part.arrays}
    images = _image(shown["output"][0]) is not None  # curves need room for the truth, pictures are clipped
    low, high = (float(bound([bound(shown[key]) for key in (("output",) if images else shown)]))
                 for bound in (np.min, np.max))  # fmt: skip
    figure = new_figure(1.2 * len(chosen) + 0.6, 1.35 * len(shown) + 0.5)
    axes = figure.subplots(len(shown), len(chosen), squeeze=False)
    places = diagnosis.space.values(torch.from_numpy(chosen)).tolist()
    for row, (key, images) in enumerate(shown.items()):
        for column, image in enumerate(images):
            ax = axes[row, column]
            _draw(ax, image, Normalize(low, high))
            for spine in ax.spines.values():
                spine.set_color(OUTLINE if held[chosen[column]] else "0.6")
            if row == 0:
                ax.set_title(", ".join(f"{v:.4g}" for v in places[column]), fontsize=8)
        axes[row, 0].set_ylabel(key)
    return figure


def _errors(diagnosis: Diagnosis, part: PartResult) -> Figure:
    figure = new_figure(4.6, 3.8)
    ax = figure.subplots()
    mse = part.arrays["mse"].reshape(diagnosis.space.shape)
    if diagnosis.holdout is None:
        picture = _map(diagnosis, mse, ax, cmap="magma")
        figure.colorbar(picture, ax=ax, label="mean squared error")
    else:
        landscape(diagnosis.holdout, mse, "mse", ax)
    shares = ", ".join(f"{r['cells'].upper()} {r['relative']:.2g}" for r in part.rows)
    ax.set_title(f"error relative to the truth's variance: {shares}", fontsize=8)
    return figure


def _geometry(diagnosis: Diagnosis, part: PartResult) -> Figure:
    """log₁₀ dv of every layer over the grid, and the factorization score by layer."""
    maps = part.by_layer("log_volume")
    figure, axes = _grid(len(maps) + 1, 2.9, 2.8)
    for ax, (name, values) in zip(axes, maps.items()):
        known = values[~np.isnan(values)]
        low, high = np.quantile(known, [0.01, 0.99]) if len(known) else (0.0, 1.0)
        if high - low < 0.05:  # a flat map: rounding errors are no pattern
            low, high = (low + high) / 2 - 0.05, (low + high) / 2 + 0.05
        picture = _map(diagnosis, values.reshape(diagnosis.space.shape), ax, cmap="viridis", vmin=low, vmax=high)
        bar = figure.colorbar(picture, ax=ax, shrink=0.8)
        bar.ax.tick_params(labelsize=7)
        ax.set_title(_short(name), fontsize=9)
    ax = axes[-1]
    splits = ["all"] if diagnosis.holdout is None else ["id", "ood"]
    for cells, mark, colour in zip(splits, "os", (COLOURS[0], OUTLINE)):
        rows = [row for row in part.rows if row["cells"] == cells and row["pair"] == "all"]
        values = _by_layer(diagnosis, rows, "factorization_pointwise")
        ax.plot(range(len(values)), values, mark + "-", color=colour, ms=4, label=cells.upper())
    _curves_axes(ax, diagnosis.layers, "")
    ax.set_title("factorization F", fontsize=9)
    ax.set_box_aspect(1)
    ax.set_ylim(top=1.005)
    ax.legend(frameon=False, fontsize=8)
    how = f"{part.facts['method']}; hold-out in red{_averaged(diagnosis)}"
    figure.suptitle(f"log₁₀ volume element by layer ({how})", fontsize=10)
    return figure


def _probes(diagnosis: Diagnosis, part: PartResult) -> Figure:
    scores = list(dict.fromkeys(row["score"] for row in part.rows))
    figure = new_figure(2.9 * len(scores), 3.1)
    axes = np.atleast_1d(figure.subplots(1, len(scores), sharey=True))
    lowest = min([row["r2"] for row in part.rows if not math.isnan(row["r2"])], default=0.0)
    for ax, score in zip(axes, scores):
        for i, factor in enumerate(diagnosis.space.names):
            rows = [row for row in part.rows if row["score"] == score and row["factor"] == factor]
            r2 = _by_layer(diagnosis, rows, "r2")
            ax.plot(range(len(r2)), r2, "os^vD"[i % 5] + "-", color=COLOURS[i % 8], ms=4, label=factor, alpha=0.9)
        if all(math.isnan(row["r2"]) for row in part.rows if row["score"] == score):
            ax.text(0.5, 0.5, "missing", transform=ax.transAxes, ha="center", color="0.5")
        _curves_axes(ax, diagnosis.layers, "R²" if ax is axes[0] else "")
        ax.axhline(0, color="0.7", lw=0.8)
        ax.set_title(SCORE_LABELS.get(score, score), fontsize=10)
        ax.set_ylim(max(lowest - 0.05, -1.05), 1.05)
    axes[0].legend(frameon=False, fontsize=8)
    cut = "; R² below −1 is cut off" if lowest < -1.05 else ""
    figure.suptitle(f"linear probes ({part.facts['cells']} cells{cut})", fontsize=10)
    return figure


def _kernels(diagnosis: Diagnosis, part: PartResult) -> Figure:
    """Gram matrices with ID and OOD blocks, beside the binary factorized kernel; the spectrum below."""
    grams = part.by_layer("gram")
    cells, n_id = part.arrays["cells"], part.facts["n_id"]
    figure = new_figure(3.1 * (len(grams) + 1), 3.3)
    axes = figure.subplots(1, len(grams) + 1)
    shared = binary_factorized_kernel(diagnosis.space, torch.from_numpy(cells), torch.from_numpy(cells)).numpy()
    agreeing = {row["similarity"]: row["correlation"] for row in part.table("agreement")}
    for ax, (name, matrix) in zip(axes, [*grams.items(), ("K_bin", shared)]):
        reverse = "_r" if name == "l2" else ""
        known = matrix[~np.isnan(matrix)]
        low, high = np.quantile(known, [0.01, 0.99]) if name != "K_bin" and len(known) else (0.0, 1.0)
        picture = ax.imshow(matrix, cmap=f"magma{reverse}", vmin=low, vmax=high, interpolation="antialiased")
        for line in (ax.axhline, ax.axvline):
            line(n_id - 0.5, color=SKY, lw=1.2)
        middles = [n_id / 2, (n_id + len(cells)) / 2]
        ax.set_xticks(middles, ["ID", "OOD"])
        ax.set_yticks(middles, ["ID", "OOD"], rotation=90, va="center")
        ax.tick_params(length=0)
        title = SIMILARITY_LABELS.get(name, "K_bin: shares a value")
        note = f"\nOOD×ID with K_bin: r = {agreeing[name]:.2f}" if name in agreeing else "\n"
        ax.set_title(title + note, fontsize=9)
        figure.colorbar(picture, ax=ax, shrink=0.75)
    return figure


def _superposition(diagnosis: Diagnosis, part: PartResult) -> Figure:
    """Pictures of a few OOD cells, and the cosines of all of them."""
    pictures = part.by_layer("pictures")
    rows = {"truth": "truth", "output": "output", "superposition": "superposition\n(best scale)"}
    shown = {key: pictures[key] for key in rows if key in pictures}
    count = len(pictures["cells"])
    image = _image(pictures["output"][0]) if count else None
    figure = new_figure(1.35 * count + 4.3, 1.35 * len(shown) + 0.9)
    halves: Any = figure.subfigures(1, 2, width_ratios=[1.35 * count + 0.8, 3.5])
    left, right = halves
    axes = left.subplots(len(shown), count, squeeze=False) if count else np.empty((0, 0))
    places = diagnosis.space.values(torch.from_numpy(pictures["cells"])).tolist()
    for column in range(count):
        everything = np.concatenate([images[column].ravel() for images in shown.values()])
        low, ground, high = (float(np.nanquantile(everything, q)) for q in (0, 0.5, 1))
        dark = ground < (low + high) / 2  # then what is faint is shown brighter
        brighter = dark and high > ground and image is not None and image.ndim == 2
        norm = PowerNorm(0.5, ground, high, clip=True) if brighter else Normalize(low, high)
        for row, (key, images) in enumerate(shown.items()):
            ax = axes[row, column]
            _draw(ax, images[column], norm)
            if column == 0:
                ax.set_ylabel(rows[key], rotation=0, ha="right", va="center", fontsize=9)
            if row == 0:
                named = [f"{n}={v:.4g}" for n, v in zip(diagnosis.space.names, places[column])]
                label = "\n".join(", ".join(named[i : i + 2]) for i in range(0, len(named), 2))
                ax.set_title(label, fontsize=8)
    _cosines(right.subplots(), part)
    scale = ""
    if image is not None:
        scale = ", each on the scale of its column" + (", faint things brightened" if image.ndim == 2 else "")
    figure.suptitle(f"unseen combinations{scale}", fontsize=10)
    return figure


def _cosines(ax: Axes, part: PartResult) -> None:
    rows = [row for row in part.rows if row["side"] == "output" and row["centred"]]
    bins = list(np.linspace(-1, 1, 41))
    lines = {
        "cosine": ("output with its superposition", COLOURS[1]),
        "cosine_truth": ("output with the truth", COLOURS[0]),
        "truth_superposition": ("truth with the superposition", "0.4"),
    }
    for key, (label, colour) in lines.items():
        values = [row[key] for row in rows if not math.isnan(row[key])]
        if values:
            style: dict[str, Any] = {"alpha": 0.6} if key != "truth_superposition" else {"histtype": "step", "lw": 1.5}
            ax.hist(values, bins=bins, color=colour, label=label, **style)
    ax.set_xlabel("cosine, mean ID output taken off", fontsize=8)
    ax.set_ylabel("OOD cells", fontsize=8)
    ax.tick_params(labelsize=8)
    ax.set_xlim(-1, 1)
    ax.set_xticks([-1, -0.5, 0, 0.5, 1])
    ax.margins(y=0.35)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=7, loc="upper left")
    else:
        ax.text(0.5, 0.5, "no cosine is known", transform=ax.transAxes, ha="center", color="0.5", fontsize=8)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _tuning(diagnosis: Diagnosis, part: PartResult) -> Figure:
    """The most typical units of every layer, and the mean indices by layer."""
    layers = [row["layer"] for row in part.rows][:MOST_CURVES]
    typical: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in part.table("typical"):
        typical.setdefault((row["layer"], row["kind"]), []).append(row)
    most = max(len(rows) for rows in typical.values())
    figure = new_figure(2 * most * 0.95 + 4.4, 1.02 * len(layers) + 1.0)
    halves: Any = figure.subfigures(1, 2, width_ratios=[2 * most * 0.95 + 1.4, 3.0])
    left, right = halves
    axes = left.subplots(len(layers), 2 * most, squeeze=False)
    for ax in axes.flat:
        ax.axis("off")
    for row, layer in enumerate(layers):
        for side, kind in enumerate(("stripe", "bump")):
            maps = part.arrays[f"{kind} maps/{layer}"]
            for i, (unit, values) in enumerate(zip(typical.get((layer, kind), []), maps)):
                ax = axes[row, side * most + i]
                ax.axis("on")
                _map(diagnosis, values, ax, outlined=False, cmap="viridis")
                _bare(ax)
                ax.set_title(f"{unit['unit']}: {unit['index']:.2f}", fontsize=6.5, pad=2)
        axes[row, 0].axis("on")
        _bare(axes[row, 0])
        axes[row, 0].set_ylabel(_short(layer), rotation=0, ha="right", va="center", fontsize=8)
    left.suptitle("most stripe-like units (left half), most bump-like ones (right half); unit: index"
                  + _averaged(diagnosis).replace("; ", "\n"), fontsize=9)  # fmt: skip
    ax = right.subplots()
    for i, kind in enumerate(("stripe", "bump")):
        values = _by_layer(diagnosis, part.rows, kind)
        ax.plot(range(len(values)), values, "os"[i] + "-", color=COLOURS[i], ms=4, label=f"{kind} index")
    _curves_axes(ax, diagnosis.layers, "mean over units")
    ax.set_ylim(-0.03, 1.03)
    ax.legend(frameon=False, fontsize=8)
    return figure


def _complexity(diagnosis: Diagnosis, part: PartResult) -> Figure:
    """Cumulative share of terms of up to 1, 2, … factors, per layer."""
    rows = part.table("layers") if "layers" in part.tables else []
    if not rows:
        raise InputError("No layer's expansion was computed, so there is nothing to draw.")
    orders = [key for key in rows[0] if key.startswith("up_to_")]
    figure = new_figure(max(4.5, 0.55 * len(rows) + 2.2), 3.6)
    ax = figure.subplots()
    previous = np.zeros(len(rows))
    shades = ("#08519c", "#6baed6", "#c6dbef", "#eff3ff")
    for order, key in enumerate(orders, 1):
        shares = np.array([row[key] for row in rows])
        label = "single-factor terms" if order == 1 else f"terms of {order} factors"
        ax.bar(range(len(rows)), shares - previous, bottom=previous, color=shades[min(order, 4) - 1], width=0.7,
               label=label, edgecolor="0.4", linewidth=0.5)  # fmt: skip
        ax.plot(range(len(rows)), shares, ".-", color="0.2", lw=0.8, ms=4)
        previous = shares
    for i, row in enumerate(rows):
        if row.get("grouping"):
            ax.text(i, 1.01, row["grouping"].replace(" ", "\n"), ha="center", va="bottom", fontsize=7)
    _curves_axes(ax, tuple(row["layer"] for row in rows), "cumulative share PF")
    lines = max((len(row.get("grouping", "").split()) for row in rows), default=0)
    ax.set_ylim(0, 1.06 + 0.06 * lines)
    ax.set_yticks(np.linspace(0, 1, 6))
    functions = [
        f"products needed for the {r['function']}: {_rank(r['approximate'])} (exactly {_rank(r['exact'])})"
        for r in part.table("functions")
    ]
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    ax.set_title("\n".join(["partial factorization by layer", *functions]), fontsize=9)
    return figure


def _rank(value: Any) -> str:
    return "more than tried" if value is None or math.isnan(value) else f"{value:g}"


def _embeddings(diagnosis: Diagnosis, part: PartResult) -> Figure:
    """The first two dimensions of every layer (columns), coloured by each factor (rows)."""
    method = "umap" if part.by_layer("umap") else "pca"
    points = part.by_layer(method)
    explained = {row["layer"]: row["explained_1"] + row["explained_2"] for row in part.table("layers")}
    cells = torch.from_numpy(part.arrays["cells"])
    values = diagnosis.space.values(cells).numpy()
    held = np.zeros(len(cells), bool) if diagnosis.holdout is None else diagnosis.holdout.mask.ravel()[cells.numpy()]
    names = diagnosis.space.names
    figure = new_figure(1.75 * len(points) + 1.0, 1.8 * len(names) + 0.7)
    axes = figure.subplots(len(names), len(points), squeeze=False)
    for row, factor in enumerate(names):
        colours = colormaps["twilight" if diagnosis.space.factors[factor].kind == "cyclic" else "viridis"]
        norm = Normalize(values[:, row].min(), values[:, row].max())
        picture = None
        for column, (layer, place) in enumerate(points.items()):
            ax = axes[row, column]
            place_id, place_ood = place[~held], place[held]
            picture = ax.scatter(*place_id[:, :2].T, c=values[~held, row], s=5, linewidths=0, cmap=colours, norm=norm)
            ax.scatter(*place_ood[:, :2].T, s=12, linewidths=0.7, facecolors="none",
                       edgecolors=colours(norm(values[held, row])))  # fmt: skip
            _bare(ax)
            ax.set_box_aspect(1)
            if row == 0:
                share = f"\n{explained[layer]:.0%}" if method == "pca" else ""
                ax.set_title(_short(layer) + share, fontsize=8)
        if picture is not None:
            bar = figure.colorbar(picture, ax=axes[row, :].tolist(), shrink=0.8, aspect=12)
            bar.set_label(factor)
    what = "PCA, share of the variance shown" if method == "pca" else "UMAP"
    figure.suptitle(f"{what}; OOD cells are open circles", fontsize=10)
    return figure


_PLOTS: dict[str, Callable[[Diagnosis, PartResult], Figure]] = {
    "outputs": _outputs,
    "errors": _errors,
    "geometry": _geometry,
    "probes": _probes,
    "kernels": _kernels,
    "superposition": _superposition,
    "tuning": _tuning,
    "complexity": _complexity,
    "embeddings": _embeddings,
}
