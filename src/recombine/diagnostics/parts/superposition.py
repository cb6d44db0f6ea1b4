"""Superposition: are unseen outputs sums of outputs for trained cells that share a factor value?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from recombine.core.errors import Missing, NotComputable
from recombine.core.images import Tone, image_axes, is_colour, tone_of
from recombine.core.statistics import median
from recombine.diagnostics.cells.classes import CellClass, Classes, classify
from recombine.diagnostics.cells.evidence import Evidence, gather_evidence
from recombine.diagnostics.cells.page import memories_panel
from recombine.diagnostics.cells.pictures import best_sums
from recombine.diagnostics.findings import Absence, PartResult, Rows
from recombine.diagnostics.inputs import NO_TARGET, DiagnosisInputs
from recombine.diagnostics.numerics.grids import rows_of
from recombine.diagnostics.numerics.superposition import (
    Superposition,
    outputs_of_mean_codes,
    superposition,
    superposition_of_inputs,
)
from recombine.diagnostics.page_content import Packer, PageContent, PageMap
from recombine.diagnostics.part import PARTS, Need, Part
from recombine.diagnostics.verdict.judge import judge
from recombine.diagnostics.verdict.verdict import Verdict
from recombine.plotting.images import show_output
from recombine.plotting.style import COLOURS, new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

CLASS_MAP = "class of the cell"
SUM_MAP = "share explained by the best sum of memories"
_COMMON = {
    "side": "Which test: output (sum of outputs) or input (output of the mean code).",
    "centred": "Whether the mean trained output was subtracted first.",
}


@PARTS.register
class SuperpositionPart(Part):
    """The class of every OOD cell with its evidence, the paper's two superposition tests, and pictures of a few cells.

    Arrays: `pictures/…` of the selected cells; `memories/cells` and `memories/weights`, the best sum of every
    classified cell in the order of the table `classes` (padded with −1 and 0); and `mean codes/<factor>`, the output
    for every value of a factor with all others at their mean code. The fact `verdict` is the resulting verdict.
    """

    name = "superposition"
    order = 30
    panel_items = 1  # all that its files hold, or nothing
    needs = frozenset({Need.HOLDOUT})
    reads: ClassVar = {"pictures": "pictures"}
    tables: ClassVar = {
        "cells": {
            **_COMMON,
            "cell": "Index of the OOD cell.",
            "<factor>": "The cell's value of each factor (value_<factor> if a column has that name).",
            "cosine": "Cosine of the output with its superposition.",
            "cosine_truth": "Cosine of the output with the truth.",
            "truth_superposition": "Cosine of the truth with the superposition.",
            "scale": "Best scale of the superposition.",
            "energy": "Share of the output's energy that the scaled superposition explains.",
            "factor_energy": "The same with one scale per factor.",
            "scale_*": "Best scale of each factor's part.",
            "shared": "Number of trained cells that share a value with the cell.",
        },
        "summary": {
            **_COMMON,
            "n_cells": "Number of OOD cells.",
            "cosine": "Median over cells.",
            "cosine_truth": "Median over cells.",
            "energy": "Median over cells.",
            "factor_energy": "Median over cells.",
            "truth_energy": "The energy that correct outputs would have; median over cells.",
            "truth_superposition": "Median over cells.",
            "nearer": "Median over cells of cosine − cosine_truth.",
        },
        "classes": {
            "cell": "Index of the cell.",
            "<factor>": "The cell's value of each factor (value_<factor> if a column has that name).",
            "split": "ood, or id for a trained cell that is treated as if it were unseen.",
            "class": "Class of the output; a value of `CellClass`.",
            "options": "Classes that explain an ambiguous cell equally well.",
            "wrong_factor": "Which factor has a wrong value, for a wrong value or a copy that differs in one factor.",
            "shown_value": "The value it shows instead.",
            "memory": "The trained cell of a copy; −1 for other classes.",
            "relative_error": "Squared error over the truth's squared distance from its trained mean.",
            "strength": "Strength of the truth's form in the output.",
            "sum": "Share of the output that the best sum of memories explains.",
            "single": "Share that the best single trained output explains.",
            "strangers": "Share that an equal number of trained outputs that share no value explains.",
            "form": "Share that the truth explains at any strength.",
            "shows_*": "Whether the output shows the right value of each factor.",
        },
        "factors": {
            "factor": "The factor.",
            "unseen": "Share of OOD cells whose output shows its right value.",
            "trained": "Share of trained cells whose output shows its right value.",
            "fails": "Whether outputs mostly show wrong values of the factor.",
            "chance": "Share of OOD cells if the values shown did not depend on the true ones.",
        },
    }

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        space, holdout, truth, outputs = inputs.space, inputs.split, inputs.truth, inputs.outputs
        shown = [(False, inputs.request.pictures), (True, 0)]
        tests = [superposition(outputs, space, holdout, truth=truth, centred=c, pictures=p) for c, p in shown]
        evidence = gather_evidence(
            outputs,
            space,
            trained=torch.from_numpy(holdout.id_mask.ravel()),
            unseen=torch.from_numpy(holdout.ood_mask.ravel()),
            truth=truth,
            seed=inputs.seed,
        )
        unseen, trained = (classify(found, evidence) for found in (evidence.unseen, evidence.control))
        verdict = judge(evidence, unseen=unseen, trained=trained)
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
            "classes": [*_class_rows("ood", unseen, evidence), *_class_rows("id", trained, evidence)],
            "factors": [vars(row) for row in verdict.factors],
        }
        arrays = _pictures(tests[0]) | _evidence_arrays(outputs, evidence, tests[0].pictures.cells)
        arrays |= {f"mean codes/{name}": made.reshape(-1, *outputs.shape[1:]).numpy()
                   for name, made in zip(space.names, alone)}  # fmt: skip
        arrays = {name: a if name.endswith("cells") else a.astype(np.float32) for name, a in arrays.items()}
        facts = {"pictures": inputs.request.to_json()["pictures"], "verdict": verdict.to_json()}
        return PartResult(self.name, tables, arrays, facts, missing)

    def summary(self, result: PartResult) -> str:
        verdict = Verdict.from_json(result.facts["verdict"])
        shares = ", ".join(f"{one.meaning} {share:.0%}" for one, share in verdict.unseen.items())
        cosines = [
            f"cosine with the equal-weight superposition ({row['side']} side, mean subtracted) {row['cosine']:.3g}"
            + ("" if math.isnan(row["cosine_truth"]) else f", with the truth {row['cosine_truth']:.3g}")
            for row in result.table("summary")
            if row["centred"]
        ]
        return "; ".join([f"unseen outputs: {shares}", *cosines])

    def page(self, result: PartResult, diagnosis: Diagnosis) -> PageContent:
        """The tables except those by cell, and maps of the class and of the share that the best sum explains."""
        order = list(CellClass)
        maps = {name: np.full(len(diagnosis.space), np.nan) for name in (CLASS_MAP, SUM_MAP)}
        for row in result.table("classes"):
            if row["split"] == "ood":
                maps[CLASS_MAP][row["cell"]] = order.index(CellClass(row["class"]))
                maps[SUM_MAP][row["cell"]] = row["sum"]
        classes = tuple(one.meaning for one in order)
        return PageContent(
            ("summary", "factors"),
            (PageMap(CLASS_MAP, maps[CLASS_MAP], classes=classes), PageMap(SUM_MAP, maps[SUM_MAP])),
        )

    def panel(self, result: PartResult, diagnosis: Diagnosis, pack: Packer, most: int) -> dict[str, Any]:
        """The outputs of mean codes by factor, which the page adds, and the memories of every unseen output."""
        alone = result.by_layer("mean codes")
        found: dict[str, Any] = {"alone": None, "missing": "", "memories": memories_panel(result, pack)}
        if set(alone) == set(diagnosis.space.names):
            found["alone"] = [pack.add_pictures(alone[name], bits=16) for name in diagnosis.space.names]
        else:
            missing = result.missing.get("input side")
            found["missing"] = missing.reason if missing else "the files of the diagnosis contain none"
        return found

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """Pictures of a few OOD cells, and the cosines of all of them."""
        pictures = result.by_layer("pictures")
        pictures |= _shown_memories(pictures)
        rows = {"truth": "truth", "output": "output", "sum": "best sum of\nmemories",
                "residual": "residual\n(grey: zero)",
                "memory 1": "strongest\nmemory", "memory 2": "second", "memory 3": "third",
                "superposition": "mean of outputs\nwith a shared\nvalue"}  # fmt: skip
        shown = {key: pictures[key] for key in rows if key in pictures}
        count = len(pictures["cells"])
        figure = new_figure(1.35 * count + 4.3, 1.35 * len(shown) + 0.9)
        halves: Any = figure.subfigures(1, 2, width_ratios=[1.35 * count + 0.8, 3.5])
        left, right = halves
        axes = left.subplots(len(shown), count, squeeze=False) if count else np.empty((0, 0))
        classes = {row["cell"]: row["class"] for row in result.table("classes") if row["split"] == "ood"}
        brightened = False
        for column, cell in enumerate(pictures["cells"].tolist()):
            toned = [images[column] for key, images in shown.items() if key not in ("sum", "residual")]
            tone = _tone(toned, diagnosis.facts["value_range"])
            brightened |= tone.power != 1 and image_axes(pictures["output"].shape[1:]) is not None
            known = diagnosis.space.label(cell)
            labels = {"truth": known, "output": classes.get(cell, "") if "truth" in shown else known}
            for row, (key, images) in enumerate(shown.items()):
                ax, image, label = axes[row, column], images[column], labels.get(key, "")
                if key.startswith("memory "):
                    weight = pictures["memory weights"][column, int(key[-1]) - 1]
                    image = image if weight > 0 else np.full_like(image, np.nan)
                    label = f"weight {weight:.2f}" if weight > 0 else ""
                half = (tone.high - tone.low) / 2
                shade = Tone(-half, half, 1.0) if key == "residual" else tone
                show_output(ax, image, label, row_0=diagnosis.facts["row_0"], tone=shade, absent="none")
                if column == 0:
                    ax.set_ylabel(rows[key], rotation=0, ha="right", va="center", fontsize=9)
        histogram = right.subplots()
        histogram.set_box_aspect(1)
        histogram.set_anchor("N")
        _cosines(histogram, result)
        faint = ", faint parts brightened" if brightened else ""
        figure.suptitle(f"unseen combinations; brightness is scaled per column{faint}", fontsize=10)
        return figure


def _tone(images: Sequence[np.ndarray], value_range: Sequence[float] | None) -> Tone:
    """How a column is shown: colours unchanged; grey on a dark background with faint parts brightened."""
    everything = np.stack(images)
    if is_colour(everything.shape[1:]):
        return tone_of(everything, value_range)
    low, ground, high = (float(np.nanquantile(everything, q)) for q in (0, 0.5, 1))
    dark = image_axes(everything.shape[1:]) is not None and low <= ground < (low + high) / 2
    return Tone(ground, high, 0.5) if dark else Tone(low, high if high > low else low + 1.0, 1.0)


def _shown_memories(pictures: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The rows of the figure with the strongest memories of the best sum and its residual."""
    if "sum" not in pictures:
        return {}
    memories = np.nan_to_num(pictures["memories"])
    rows = {f"memory {k + 1}": memories[:, k] for k in range(memories.shape[1])}
    return {**rows, "residual": pictures["output"] - np.nan_to_num(pictures["sum"])}


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
    """Raise if the mean of codes is the code of another cell (as for a ramp) instead of a new one."""
    if inputs.encode is None:
        raise NotComputable(
            Missing.NOT_APPLICABLE,
            "The code consists of the factor values, so a mean code is just another combination.",
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
            "The mean code is close to the code of a single cell, so the code is not a population code and the input "
            "side would not be informative.",
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


def _evidence_arrays(outputs: Tensor, evidence: Evidence, pictured: np.ndarray) -> dict[str, np.ndarray]:
    """Memories and weights of every classified cell, and the best sums of the pictured ones among them."""
    memory = evidence.unseen.memory
    arrays = {"memories/cells": memory.memory_cells, "memories/weights": memory.memory_weights}
    place = {int(cell): row for row, cell in enumerate(evidence.unseen.cells)}
    chosen = np.array([place[int(cell)] for cell in pictured if int(cell) in place], dtype=int)
    if len(chosen) == len(pictured):
        found = best_sums(outputs.flatten(1), evidence, chosen)
        for name in ("sum", "memories"):
            found[name] = found[name].reshape(*found[name].shape[:-1], *outputs.shape[1:])
        arrays |= {f"pictures/{name}": array for name, array in found.items()}
    return arrays


def _class_rows(split: str, found: Classes, evidence: Evidence) -> Rows:
    space = evidence.space
    shown = evidence.unseen if split == "ood" else evidence.control
    values = space.values(torch.from_numpy(found.cells)).tolist()
    flat = np.maximum(shown.memory.flat, 1e-300)
    nothing = np.full(len(found.cells), math.nan)
    truth = shown.truth
    columns = {
        "relative_error": nothing if truth is None else truth.error,
        "strength": nothing if truth is None else truth.strength,
        "sum": _explained(shown.memory.sum, flat),
        "single": _explained(shown.memory.single, flat),
        "strangers": _explained(shown.memory.strangers, flat),
        "form": nothing if truth is None else _explained(truth.form, flat),
    }
    shows = [f"shows_{name}" for name in space.names]
    taken = {"cell", "split", "class", "options", "wrong_factor", "shown_value", "memory", *columns, *shows}
    names = [f"value_{name}" if name in taken else name for name in space.names]
    rows = []
    for i, cell in enumerate(found.cells):
        axis = int(found.wrong_axis[i])
        factor = None if axis < 0 else list(space.factors.values())[axis]
        rows.append({
            "cell": int(cell),
            **dict(zip(names, values[i])),
            "split": split,
            "class": str(found.classes[i]),
            "options": " | ".join(found.options[i]),
            "wrong_factor": "" if axis < 0 else space.names[axis],
            "shown_value": "" if factor is None else factor.labels[int(found.wrong_value[i])],
            "memory": int(found.memory[i]),
            **{name: float(column[i]) for name, column in columns.items()},
            **({} if found.values_right is None else dict(zip(shows, map(bool, found.values_right[i])))),
        })  # fmt: skip
    return rows


def _explained(left: np.ndarray, flat: np.ndarray) -> np.ndarray:
    """The explained share; NaN if there is no explanation."""
    return np.where(np.isfinite(left), np.clip(1 - left / flat, 0, 1), np.nan)


def _summary(test: Superposition) -> dict[str, Any]:
    """Medians over cells. `truth_energy` is the `energy` that correct outputs would have."""
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
        "truth_superposition": math.nan if right is None else median(right),
        "nearer": math.nan if truth is None else median(test.cosine - truth),
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
    ax.set_xlabel("cosine, mean ID output subtracted", fontsize=8)
    ax.set_ylabel("OOD cells", fontsize=8)
    ax.tick_params(labelsize=8)
    ax.set_xlim(-1, 1)
    ax.set_xticks([-1, -0.5, 0, 0.5, 1])
    ax.margins(y=0.35)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=7, loc="upper left")
    else:
        ax.text(0.5, 0.5, "no cosine is known", transform=ax.transAxes, ha="center", color="0.5", fontsize=8)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
