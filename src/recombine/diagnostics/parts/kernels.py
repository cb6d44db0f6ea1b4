"""Kernels: Gram matrices of the outputs, kernel regression, and the spectrum of the cosine kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure

from recombine.core.errors import Missing, NotComputable
from recombine.diagnostics.findings import Absence, PartResult, Rows
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.numerics.budget import Budget
from recombine.diagnostics.numerics.grids import draw_cells
from recombine.diagnostics.numerics.kernel_regression import KernelKind, affordable_cells, kernel_regression
from recombine.diagnostics.numerics.kernel_spectra import kernel_spectrum
from recombine.diagnostics.numerics.kernels import (
    DRAWS,
    SIMILARITIES,
    GramMatrices,
    agreement,
    binary_factorized_kernel,
    gram_matrices,
)
from recombine.diagnostics.page_content import Packer
from recombine.diagnostics.part import PARTS, Need, Part
from recombine.diagnostics.request import DiagnosisRequest
from recombine.plotting.style import SKY, new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

MOST_CELLS = 2048  # time grows with the cube of their number, and memory with the square
CP = {"epsilon": 0.05, "largest": 8, "inits": 2}  # search for product terms, three factors and more
KINDS: tuple[KernelKind, ...] = ("factorized", "radial")
SIMILARITY_LABELS = {"cosine": "cosine", "l2": "L2 distance", "overlap": "pixel overlap"}


@PARTS.register
class Kernels(Part):
    """Gram matrices and their agreement with shared values, kernel regression, the spectrum of the cosine kernel.

    Arrays: `gram/<similarity>`, (cell, cell) with ID cells first; `cells`, the cell of each row; `spectrum`.
    """

    name = "kernels"
    order = 40
    needs = frozenset({Need.HOLDOUT})
    panel_items = 1024  # cells
    reads: ClassVar = {"budget": "budget"}
    tables: ClassVar = {
        "agreement": {
            "similarity": "Which similarity of outputs: cosine, l2 (with its sign changed) or overlap.",
            "correlation": "Pearson's r of OOD × ID similarity with the binary factorized kernel.",
            "low": "Lower end of its 95 % interval, OOD cells resampled.",
            "high": "Upper end of that interval.",
            "null_low": "2.5 % quantile of r when factor values are permuted at random.",
            "null_high": "97.5 % quantile of the same.",
            "p_value": "Share of permutations with r at least as high.",
            "pairs": "Number of pairs of cells.",
            "draws": "Number of permutations, and of bootstrap samples.",
            "missing": "OOD cells that are omitted because their similarity is undefined.",
        },
        "regression": {
            "kind": "Which kernel over factors: factorized or radial.",
            "id_error": "Mean squared leave-one-out error on ID cells.",
            "ood_error": "Mean squared error on OOD cells.",
            "id_relative": "id_error over the mean square of the ID outputs; 1 for always predicting 0.",
            "ood_relative": "ood_error over the mean square of the OOD outputs.",
            "exhaustive": "Whether all combinations of length scales were tried, or factor by factor.",
            "cells": "Number of cells used for the fit and the scores.",
            "of_cells": "Number of available cells.",
            "length_*": "Length scale chosen for each factor, by the error on ID cells alone.",
        },
        "spectrum": {
            "method": "How the kernel was decomposed: schmidt (two factors) or cp.",
            "participation_ratio": "Effective number of product terms.",
            "entropy_rank": "The same by entropy.",
            "rank": "Terms needed for a relative error of epsilon.",
            "error": "Remaining relative error.",
            "epsilon": "Target of the relative error.",
            "complete": "Whether the search for product terms was completed within the budget.",
        },
    }

    def panel(self, result: PartResult, diagnosis: Diagnosis, pack: Packer, most: int) -> dict[str, Any]:
        """The upper triangles of all similarities, row by row, and the cell of each row.

        Of a larger matrix, only every second, third, … cell is shown, so that ID and OOD keep their shares; `of` is the
        total number of cells.
        """
        cells, n_id = result.arrays["cells"], int(result.facts["n_id"])
        step = -(-len(cells) // most)
        kept = np.concatenate([np.arange(0, n_id, step), np.arange(n_id, len(cells), step)])
        above = np.triu_indices(len(kept))
        grams = result.by_layer("gram")
        agreement = result.table("agreement") if "agreement" in result.tables else []
        return {
            "cells": cells[kept].tolist(),
            "n_id": int((kept < n_id).sum()),
            "of": len(diagnosis.space),
            "grams": {name: pack.add(matrix[np.ix_(kept, kept)][above]) for name, matrix in grams.items()},
            "agreement": {row["similarity"]: row for row in agreement},
        }

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        space, holdout, seed, outputs = inputs.space, inputs.split, inputs.seed, inputs.outputs
        cells = draw_cells(holdout, MOST_CELLS, seed=seed)
        single = torch.float32 if outputs.dtype == torch.float32 else torch.float64
        grams = gram_matrices(outputs, space, holdout, cells=cells, overlap_dtype=single)
        budget = Budget.seconds(inputs.request.budget)
        missing: dict[str, Absence] = {}
        tables: dict[str, Rows] = {"agreement": []}
        for index, similarity in enumerate(SIMILARITIES):
            try:
                found = agreement(grams, similarity, seed=seed, budget=budget.share(6 - index))
                tables["agreement"].append(asdict(found))
            except NotComputable as error:
                missing[f"agreement, {similarity}"] = Absence.of(error)
        try:
            tables["regression"] = _regression(inputs, budget.share(2))
        except NotComputable as error:
            missing["regression"] = Absence.of(error)
        arrays = {f"gram/{name}": matrix.astype(np.float32) for name, matrix in grams.matrices.items()}
        arrays["cells"] = grams.cells
        try:
            inputs.check_complete("A spectrum of products")
            spectrum, arrays["spectrum"] = _spectrum(grams, seed, budget)
            tables["spectrum"] = [spectrum]
        except NotComputable as error:
            missing["spectrum"] = Absence.of(error)
        existing = len(inputs.subject.cells)
        facts = {"n_id": grams.n_id, "cells": len(cells), "grid_cells": existing, "drawn": len(cells) < existing,
                 **inputs.request.budget_facts(_cut_short(tables, len(cells)))}  # fmt: skip
        return PartResult(self.name, tables, arrays, facts, missing)

    def answers(self, facts: Mapping[str, Any], request: DiagnosisRequest) -> bool:
        return request.same_budget(facts)

    def summary(self, result: PartResult) -> str:
        parts = [
            f"{row['similarity']} r = {row['correlation']:.3g} (p = {row['p_value']:.3g})"
            for row in result.table("agreement")
        ]
        text = f"OOD × ID similarity against shared values: {', '.join(parts) or 'unknown'}"
        for row in result.tables.get("spectrum", []):
            text += f"; kernel spectrum ({row['method']}): {row['participation_ratio']:.3g} effective terms"
        return text

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """Gram matrices with ID and OOD blocks, beside the binary factorized kernel; the spectrum below."""
        grams = result.by_layer("gram")
        cells, n_id = result.arrays["cells"], result.facts["n_id"]
        figure = new_figure(3.1 * (len(grams) + 1), 3.3)
        axes = figure.subplots(1, len(grams) + 1)
        shared = binary_factorized_kernel(diagnosis.space, torch.from_numpy(cells), torch.from_numpy(cells)).numpy()
        agreeing = {row["similarity"]: row["correlation"] for row in result.table("agreement")}
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


def _regression(inputs: DiagnosisInputs, budget: Budget) -> Rows:
    """Kernel regression on all cells, or on as many as the budget allows."""
    space, holdout = inputs.space, inputs.split
    existing = holdout.n_id + holdout.n_ood
    most = min(MOST_CELLS, existing)
    features = inputs.outputs[0].numel()
    cells = draw_cells(
        holdout, max(2, affordable_cells(space, holdout.n_id / max(1, existing), features, most, budget.share(2))),
        seed=inputs.seed,
    )  # fmt: skip
    rows: Rows = []
    for index, kind in enumerate(KINDS):
        fit = kernel_regression(inputs.outputs, space, holdout, kind, cells=cells, budget=budget.share(2 - index))
        names = ("kind", "id_error", "ood_error", "id_relative", "ood_relative", "exhaustive")
        row = {**{name: getattr(fit, name) for name in names}, "cells": len(cells), "of_cells": existing}
        rows.append(row | {f"length_{name}": length for name, length in fit.lengths.items()})
    return rows


def _cut_short(tables: dict[str, Rows], cells: int) -> bool:
    """Whether a larger budget would have found more."""
    return (
        any(row["draws"] < DRAWS for row in tables["agreement"])
        or any(row["cells"] < cells or not row["exhaustive"] for row in tables.get("regression", []))
        or any(not row["complete"] for row in tables.get("spectrum", []))
    )


def _spectrum(grams: GramMatrices, seed: int, budget: Budget) -> tuple[dict[str, Any], Float[np.ndarray, " term"]]:
    if len(grams.cells) < len(grams.space):
        raise NotComputable(
            Missing.TOO_LARGE, f"A spectrum needs all cells, but there are {len(grams.space)}, more than {MOST_CELLS}."
        )
    settings: dict[str, Any] = {} if grams.space.n_factors == 2 else CP
    found = kernel_spectrum(grams.in_cell_order("cosine"), grams.space, seed=seed, budget=budget, **settings)
    row = {name: getattr(found, name) for name in ("method", "participation_ratio", "entropy_rank", "rank")}
    return {**row, "error": found.error, "epsilon": found.epsilon, "complete": found.complete}, found.weights
