"""Embeddings: every layer's activations as points in a few dimensions."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

import torch
from jaxtyping import Float, Int
from matplotlib import colormaps
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor

from recombine.core.errors import Missing, NotComputable
from recombine.diagnostics.drawing import short_name, without_ticks
from recombine.diagnostics.findings import Absence, PartResult
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.layer_activations import LayerActivations
from recombine.diagnostics.numerics.embeddings import EXACT_SIDE, NEIGHBOURS, NO_UMAP, umap_points, with_signs
from recombine.diagnostics.numerics.probes import Features, features_of_rows
from recombine.diagnostics.part import PARTS, LayerPart
from recombine.plotting.grids import label_positions
from recombine.plotting.style import new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

DIMENSIONS = 3


@PARTS.register
class Embeddings(LayerPart):
    """Principal components of every layer, and UMAP where umap-learn is installed.

    Arrays: `cells`, the cells embedded, ID first; `pca/<layer>` and `umap/<layer>`, (cell, dimension). With a truth,
    `true pca` and `true umap` are the points of the true outputs for the same cells.
    """

    name = "embeddings"
    order = 90
    on_page = False
    tables: ClassVar = {
        "layers": {
            "layer": "Name of the layer.",
            "cells": "Number of embedded cells.",
            "explained_*": "Share of the variance along each principal component.",
        }
    }

    def study(self, layer: LayerActivations, inputs: DiagnosisInputs) -> PartResult:
        cells = inputs.id_first
        if len(cells) > EXACT_SIDE and layer.rows.shape[1] > EXACT_SIDE:
            cells = inputs.draw_cells(EXACT_SIDE)
        scores = _scores(layer.features(cells))
        total = float(scores.square().sum())
        if total == 0:  # also if there is no direction at all
            raise NotComputable(Missing.DEGENERATE, "the activations do not vary")
        shares = (scores.square().sum(0) / total).tolist()
        points, missing = _points(scores, cells, inputs)
        arrays = {f"{method}/{layer.name}": place.numpy() for method, place in points.items()}
        explained = {f"explained_{i + 1}": share for i, share in enumerate([*shares, 0.0, 0.0, 0.0][:DIMENSIONS])}
        row = {"layer": layer.name, "cells": len(cells), **explained}
        return PartResult(self.name, {"layers": [row]}, {**arrays, "cells": cells.numpy()}, missing=missing)

    def finish(self, result: PartResult, inputs: DiagnosisInputs) -> PartResult:
        """Add the points of the true outputs."""
        if inputs.truth is not None and "cells" in result.arrays:
            cells = torch.from_numpy(result.arrays["cells"])
            scores = _scores(features_of_rows(inputs.truth.rows(cells)))
            points, _ = _points(scores, cells, inputs)
            result.arrays.update({f"true {method}": place.numpy() for method, place in points.items()})
        return result

    def summary(self, result: PartResult) -> str:
        shares = [f"{row['explained_1'] + row['explained_2']:.0%}" for row in result.rows]
        return f"variance on two principal components by layer: {', '.join(shares)}"

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """The first two dimensions of every layer (columns), coloured by each factor (rows)."""
        method = "umap" if result.by_layer("umap") else "pca"
        points = result.by_layer(method)
        explained = {row["layer"]: row["explained_1"] + row["explained_2"] for row in result.table("layers")}
        cells = torch.from_numpy(result.arrays["cells"])
        values = diagnosis.space.values(cells).numpy()
        held = diagnosis.held_out[cells.numpy()]
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
                picture = ax.scatter(
                    *place_id[:, :2].T, c=values[~held, row], s=5, linewidths=0, cmap=colours, norm=norm
                )
                ax.scatter(*place_ood[:, :2].T, s=12, linewidths=0.7, facecolors="none",
                           edgecolors=colours(norm(values[held, row])))  # fmt: skip
                without_ticks(ax)
                ax.set_box_aspect(1)
                if row == 0:
                    share = f"\n{explained[layer]:.0%}" if method == "pca" else ""
                    ax.set_title(short_name(layer) + share, fontsize=8)
            if picture is not None:
                bar = figure.colorbar(picture, ax=axes[row, :].tolist(), shrink=0.8, aspect=12)
                bar.set_label(factor)
                if diagnosis.space.factors[factor].categorical:
                    shown = label_positions(diagnosis.space.factors[factor]).tolist()
                    bar.set_ticks(shown, labels=[diagnosis.space.factors[factor].labels[i] for i in shown])
        what = "PCA, share of the variance shown" if method == "pca" else "UMAP"
        figure.suptitle(f"{what}; OOD cells are open circles", fontsize=10)
        return figure


def _scores(features: Features) -> Float[Tensor, "cell dimension"]:
    """All principal component scores, largest first, with the signs of `embed_pca`; none if nothing varies."""
    whole = features.whole
    order = whole.sizes.argsort(descending=True)
    order = order[whole.sizes[order].square() > 1e-13 * whole.sizes.square().sum()]
    return with_signs(whole.left[:, order] * whole.sizes[order])


def _points(
    scores: Float[Tensor, "cell dimension"], cells: Int[Tensor, " cell"], inputs: DiagnosisInputs
) -> tuple[dict[str, Float[Tensor, "cell shown"]], dict[str, Absence]]:
    """Method → points, and why one of them is missing."""
    points = {"pca": torch.nn.functional.pad(scores, (0, max(0, DIMENSIONS - scores.shape[1])))[:, :DIMENSIONS]}
    try:
        return {**points, "umap": _umap(scores, cells, inputs)}, {}
    except NotComputable as error:
        return points, {"umap": Absence.of(error)}


def _umap(
    scores: Float[Tensor, "cell dimension"], cells: Int[Tensor, " cell"], inputs: DiagnosisInputs
) -> Float[Tensor, "cell two"]:
    if find_spec("umap") is None:
        raise NotComputable(Missing.NOT_INSTALLED, NO_UMAP)
    if len(cells) < len(inputs.id_first):
        raise NotComputable(Missing.TOO_LARGE, f"{len(inputs.id_first)} cells are too many")
    if len(cells) <= NEIGHBOURS:
        raise NotComputable(Missing.TOO_FEW_CELLS, f"{len(cells)} cells are too few")
    order = cells.argsort()
    points = torch.empty(len(cells), 2, dtype=torch.float64)
    points[order] = torch.from_numpy(umap_points(scores[order], seed=inputs.seed))
    return points
