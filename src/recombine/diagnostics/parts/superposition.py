"""Superposition: are unseen outputs sums of outputs for trained cells that share a factor value?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from torch import Tensor

from recombine.core.errors import Missing, NotComputable
from recombine.core.statistics import median
from recombine.diagnostics.drawing import as_image, draw_output
from recombine.diagnostics.findings import Absence, PartResult, Rows
from recombine.diagnostics.inputs import NO_TARGET, DiagnosisInputs
from recombine.diagnostics.numerics.grids import rows_of
from recombine.diagnostics.numerics.nonnegative_superposition import NonnegativeSuperposition, nonnegative_superposition
from recombine.diagnostics.numerics.superposition import (
    Superposition,
    outputs_of_mean_codes,
    superposition,
    superposition_of_inputs,
)
from recombine.diagnostics.part import PARTS, Need, Part
from recombine.diagnostics.request import DiagnosisRequest
from recombine.plotting.style import COLOURS, new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

_COMMON = {
    "side": "Which test: output (sum of outputs) or input (output of the mean code).",
    "centred": "Whether the mean trained output was subtracted first.",
}


@PARTS.register
class SuperpositionPart(Part):
    """Both sides of the test, plain and centred, on every OOD cell; sums with free weights; pictures of a few cells.

    Arrays: `pictures/…` of the chosen cells, `remembered/share`, and `mean codes/<factor>`, the output for every value
    of a factor with all others at their mean code.
    """

    name = "superposition"
    order = 30
    needs = frozenset({Need.HOLDOUT})
    tables: ClassVar = {
        "cells": {
            **_COMMON,
            "cell": "Number of the OOD cell.",
            "<factor>": "The cell's value of each factor (value_<factor> if a column has that name).",
            "cosine": "Cosine of the output with its superposition.",
            "cosine_truth": "Cosine of the output with the truth.",
            "truth_superposition": "Cosine of the truth with the superposition.",
            "scale": "Best scale of the superposition.",
            "energy": "Share of the output's energy that the scaled superposition explains.",
            "factor_energy": "The same with one scale per factor.",
            "scale_*": "Best scale of each factor's part.",
            "shared": "How many trained cells share a value with the cell.",
        },
        "summary": {
            **_COMMON,
            "n_cells": "How many OOD cells.",
            "cosine": "Median over cells.",
            "cosine_truth": "Median over cells.",
            "energy": "Median over cells.",
            "factor_energy": "Median over cells.",
            "truth_energy": "What right outputs would score as energy; median over cells.",
        },
        "remembered": {
            "n_cells": "How many OOD cells.",
            "share": "Share of the energy that the best non-negative sum of related trained outputs explains; median.",
            "unrelated": "The same with as many unrelated trained outputs.",
            "trained": "The same for trained cells with a hole as large around them.",
            "truth": "The same for right outputs.",
            "blank": "Share of OOD outputs that hold nothing beside the mean trained output.",
        },
    }

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        space, holdout, truth, outputs = inputs.space, inputs.split, inputs.truth, inputs.outputs
        shown = [(False, inputs.request.pictures), (True, 0)]
        tests = [superposition(outputs, space, holdout, truth=truth, centred=c, pictures=p) for c, p in shown]
        remembered = nonnegative_superposition(outputs, space, holdout, truth=truth, seed=inputs.seed)
        missing: dict[str, Absence] = {}
        alone: list[Tensor] = []
        try:
            alone, more = _input_side(inputs)
            tests += more
        except NotComputable as error:
            missing["input side"] = Absence.of(error)
        if truth is None:
            missing["truth"] = Absence(Missing.NO_TRUTH, NO_TARGET)
        tables = {
            "cells": [row for test in tests for row in _cell_rows(test, inputs)],
            "summary": [_summary(test) for test in tests],
            "remembered": [_remembered_row(remembered)],
        }
        arrays = _pictures(tests[0])
        arrays |= {"remembered/cells": remembered.cells, "remembered/share": remembered.share}
        arrays |= {f"mean codes/{name}": made.reshape(-1, *outputs.shape[1:]).numpy()
                   for name, made in zip(space.names, alone)}  # fmt: skip
        arrays = {name: a if name.endswith("cells") else a.astype(np.float32) for name, a in arrays.items()}
        facts = {"pictures": inputs.request.to_json()["pictures"]}
        return PartResult(self.name, tables, arrays, facts, missing)

    def answers(self, facts: Mapping[str, Any], request: DiagnosisRequest) -> bool:
        return facts.get("pictures") == request.to_json()["pictures"]

    def summary(self, result: PartResult) -> str:
        [sums] = result.table("remembered")
        beside = ", ".join(f"{name} {sums[name]:.3g}" for name in ("truth", "unrelated", "trained"))
        cosines = [
            f"cosine with the superposition, {row['side']} side, mean taken off: {row['cosine']:.3g} "
            f"(with the truth {row['cosine_truth']:.3g})"
            for row in result.table("summary")
            if row["centred"]
        ]
        share = f"share of OOD outputs that sums of remembered ones explain: {sums['share']:.3g} ({beside})"
        return "; ".join([share, *cosines])

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """Pictures of a few OOD cells, and the cosines of all of them."""
        pictures = result.by_layer("pictures")
        rows = {"truth": "truth", "output": "output", "superposition": "superposition\n(best scale)"}
        shown = {key: pictures[key] for key in rows if key in pictures}
        count = len(pictures["cells"])
        image = as_image(pictures["output"][0]) if count else None
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
                draw_output(ax, images[column], norm)
                if column == 0:
                    ax.set_ylabel(rows[key], rotation=0, ha="right", va="center", fontsize=9)
                if row == 0:
                    named = [f"{n}={v:.4g}" for n, v in zip(diagnosis.space.names, places[column])]
                    label = "\n".join(", ".join(named[i : i + 2]) for i in range(0, len(named), 2))
                    ax.set_title(label, fontsize=8)
        _cosines(right.subplots(), result)
        scale = ""
        if image is not None:
            scale = ", each on the scale of its column" + (", faint things brightened" if image.ndim == 2 else "")
        figure.suptitle(f"unseen combinations{scale}", fontsize=10)
        return figure


def _input_side(inputs: DiagnosisInputs) -> tuple[list[Tensor], list[Superposition]]:
    """The outputs of mean codes by factor, and the tests of the input side, plain and centred."""
    _check_population(inputs)
    given = (inputs.model, inputs.subject.code, inputs.space, inputs.split)
    alone = outputs_of_mean_codes(*given, inputs.outputs[0].numel(), inputs.subject.values)
    return alone, [
        superposition_of_inputs(inputs.outputs, *given, truth=inputs.truth, centred=centred, pictures=0, made=alone)
        for centred in (False, True)
    ]


def _check_population(inputs: DiagnosisInputs) -> None:
    """Raise unless averaging codes makes a new code, and not that of another cell (as for a ramp)."""
    if inputs.encode is None:
        raise NotComputable(
            Missing.NOT_APPLICABLE, "The code is the factor values themselves; their mean is just another combination."
        )
    if not inputs.subject.code_dtype.is_floating_point:
        raise NotComputable(Missing.NOT_APPLICABLE, "The codes are integers, which cannot be averaged.")
    with torch.no_grad():
        codes = torch.cat([
            rows_of(inputs.subject.code(inputs.subject.values(cells))).double().cpu()
            for cells in inputs.space.chunks()
        ])  # fmt: skip
    away = torch.linalg.vector_norm(codes - codes[inputs.split.id_cells].mean(0), dim=1)
    if float(away.min()) < 0.25 * float(away.median()):
        raise NotComputable(
            Missing.NOT_APPLICABLE,
            "The mean code is close to the code of a single cell, so this is no population code and the input side "
            "would say nothing.",
        )


def _pictures(test: Superposition) -> dict[str, np.ndarray]:
    pictures = test.pictures
    arrays = {"pictures/cells": pictures.cells, "pictures/output": pictures.output,
              "pictures/superposition": pictures.superposition, "pictures/parts": pictures.parts}  # fmt: skip
    if pictures.truth is not None:
        arrays["pictures/truth"] = pictures.truth
    return arrays


def _cell_rows(test: Superposition, inputs: DiagnosisInputs) -> Rows:
    values = inputs.space.values(torch.from_numpy(test.cells)).tolist()
    nothing = np.full(len(test.cells), math.nan)
    columns = {
        "cosine": test.cosine,
        "cosine_truth": nothing if test.cosine_truth is None else test.cosine_truth,
        "truth_superposition": nothing if test.truth_superposition is None else test.truth_superposition,
        "scale": test.scale,
        "energy": test.energy,
        "factor_energy": test.factor_energy,
    }
    scales = [f"scale_{name}" for name in inputs.space.names]
    taken = {"side", "centred", "cell", "shared", *columns, *scales}
    names = [f"value_{name}" if name in taken else name for name in inputs.space.names]
    return [
        {
            "side": test.side,
            "centred": test.centred,
            "cell": int(cell),
            **dict(zip(names, values[i])),
            **{name: float(column[i]) for name, column in columns.items()},
            **{name: float(test.factor_scales[i, a]) for a, name in enumerate(scales)},
            "shared": int(test.shared[i]),
        }
        for i, cell in enumerate(test.cells)
    ]


def _remembered_row(found: NonnegativeSuperposition) -> dict[str, Any]:
    """Medians over cells, and the share of blank outputs."""
    shares = {"share": found.share, "unrelated": found.unrelated, "trained": found.trained}
    truth = math.nan if found.truth is None else median(found.truth)
    medians = {name: median(values) for name, values in shares.items()}
    return {"n_cells": len(found.cells), **medians, "truth": truth, "blank": float(found.blank.mean())}


def _summary(test: Superposition) -> dict[str, Any]:
    """Medians over cells. `truth_energy` is what right outputs would score as `energy`."""
    truth, right = test.cosine_truth, test.truth_superposition
    return {
        "side": test.side,
        "centred": test.centred,
        "n_cells": len(test.cells),
        "cosine": median(test.cosine),
        "cosine_truth": math.nan if truth is None else median(truth),
        "energy": median(test.energy),
        "factor_energy": median(test.factor_energy),
        "truth_energy": math.nan if right is None else median(right.clip(min=0) ** 2),
    }


def _cosines(ax: Axes, result: PartResult) -> None:
    rows = [row for row in result.rows if row["side"] == "output" and row["centred"]]
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
