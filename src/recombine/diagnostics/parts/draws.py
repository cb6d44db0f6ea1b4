"""Draws: mean and spread of the outputs over several draws of the model's noise, and the verdict on each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from recombine.core.errors import Missing, NotComputable
from recombine.core.images import Tone, tone_of
from recombine.core.statistics import ratio
from recombine.diagnostics.cells.evidence import gather_evidence
from recombine.diagnostics.drawing import map_over_grid
from recombine.diagnostics.draws import NO_SPREAD, VERDICTS, DrawVerdicts, verdicts_of
from recombine.diagnostics.findings import Absence, PartResult
from recombine.diagnostics.inputs import NO_HOLDOUT, DiagnosisInputs
from recombine.diagnostics.model.grid_activations import collect
from recombine.diagnostics.model.layers import OUT
from recombine.diagnostics.numerics.grids import cells_per_block
from recombine.diagnostics.page_content import PageContent, PageMap
from recombine.diagnostics.part import PARTS, Part
from recombine.diagnostics.verdict.judge import judge
from recombine.diagnostics.verdict.verdict import Verdict
from recombine.plotting.images import show_output
from recombine.plotting.style import new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis
    from recombine.diagnostics.request import DiagnosisRequest

MOST_OUTPUTS = 2**25  # numbers kept, 128 MB
MEAN = "mean"
MOST_SHOWN = 5  # cells whose pictures the figure shows
SAME = 1e-10  # variance over draws, relative to the outputs' mean square, below which they are the same


@PARTS.register
class Draws(Part):
    """Mean and spread of the outputs over several draws of the model's noise, and the verdict on each draw.

    Arrays: `mean` and `deviation`, (cell, …): mean and standard deviation over the draws; `spread`, (cell,): mean
    variance over the draws. NaN where a cell does not exist. `pictures/cells`, `pictures/output` (the first draw) and
    `pictures/truth` are those of a few unseen cells. The fact `verdicts` holds the verdicts in full.
    """

    name = "draws"
    order = 35
    on_request = True
    reads: ClassVar = {"draws": "draws"}
    tables: ClassVar = {
        "draws": {
            "draw": "Number of the draw, or mean for the mean over all draws.",
            "verdict": "Its verdict.",
            "right": "Share of unseen cells that are right.",
            "id_error": "Squared error over the truth's variance, trained cells.",
            "ood_error": "Squared error over the truth's variance, unseen cells.",
        },
        "spread": {
            "cells": "Set of cells: all, id or ood.",
            "n_cells": "Number of cells.",
            "spread": "Variance over the draws, mean over cells and numbers.",
            "relative": "spread over the truth's variance (over the mean output's without truth).",
        },
    }

    def asked_for(self, request: DiagnosisRequest, *, named: bool) -> bool:
        return named or request.draws > 1

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        count, outputs = inputs.request.draws, inputs.outputs
        if count == 1 or inputs.draw is None:
            raise NotComputable(
                Missing.NOT_APPLICABLE, "A single draw has no spread. Request more, for example draws=8."
            )
        if 2 * outputs.numel() > MOST_OUTPUTS:
            raise NotComputable(
                Missing.TOO_LARGE, f"Mean and deviation of {len(outputs)} outputs of {outputs[0].numel()} numbers are "
                "too large to store."
            )  # fmt: skip
        verdicts: list[Verdict] = []
        mean = torch.zeros(outputs.shape, dtype=torch.float64)
        squares = torch.zeros_like(mean)
        for number in range(count):
            one = outputs.double() if number == 0 else _outputs(inputs, number)
            apart = one - mean
            mean += apart / (number + 1)  # Welford's update: no difference of large sums
            squares += apart * (one - mean)
            verdicts += [_verdict(inputs, one)] if _is_judged(inputs) else []
        variance = squares / count
        missing, facts = {}, {"draws": count, NO_SPREAD: _is_none(variance, outputs)}
        tables = {"draws": [], "spread": _spread_rows(inputs, mean, variance)}
        if not verdicts:
            why = (
                NO_HOLDOUT
                if inputs.holdout is None
                else ("the hold-out leaves no unseen or no trained combinations to compare")
            )
            missing["verdicts"] = Absence(Missing.NO_HOLDOUT, why)
        else:
            found = DrawVerdicts(verdicts, _verdict(inputs, mean))
            tables["draws"] = [_row(str(n), verdict) for n, verdict in enumerate(verdicts)] + [_row(MEAN, found.mean)]
            facts[VERDICTS] = {"draws": [one.to_json() for one in verdicts], "mean": found.mean.to_json()}
        arrays = {"mean": mean, "deviation": variance.sqrt(), "spread": variance.flatten(1).mean(1)}
        gone = torch.from_numpy(~inputs.available)
        for array in arrays.values():
            array[gone] = torch.nan
        cells = _shown_cells(inputs.available, inputs.masks.get("ood", inputs.available))
        arrays["pictures/cells"], arrays["pictures/output"] = torch.from_numpy(cells), outputs[cells]
        if inputs.truth is not None:
            rows = inputs.truth.rows(torch.from_numpy(cells))
            arrays["pictures/truth"] = rows.reshape(len(cells), *outputs.shape[1:])
        found = {k: a.numpy() if a.dtype == torch.int64 else a.float().numpy() for k, a in arrays.items()}
        return PartResult(self.name, tables, found, facts, missing)

    def summary(self, result: PartResult) -> str:
        found = verdicts_of(result)
        told = f"{result.facts['draws']} draws" if found is None else found.told
        shares = ", ".join(f"{row['cells'].upper()} {row['relative']:.3g}" for row in result.table("spread"))
        return f"{told}; spread over draws relative to the truth's variance: {shares}"

    def page(self, result: PartResult, diagnosis: Diagnosis) -> PageContent:
        return PageContent(("draws", "spread"), (PageMap("spread over draws", result.arrays["spread"]),))

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """The spread over the plane; for a few unseen cells the truth, one draw, the mean and the deviation."""
        mean, deviation = result.arrays["mean"], result.arrays["deviation"]
        exist = np.asarray(~np.isnan(mean).reshape(len(mean), -1).all(1))
        cells = _shown_cells(exist, diagnosis.held_out)  # also those of `pictures`
        pictures = {"truth": "pictures/truth", "first draw": "pictures/output"}
        shown = {name: result.arrays[key] for name, key in pictures.items() if key in result.arrays}
        shown["mean"] = mean[cells]
        tone = tone_of(np.concatenate(list(shown.values())), diagnosis.facts["value_range"])
        most = float(deviation[cells].max())
        figure = new_figure(4.4 + 1.3 * len(cells), max(3.8, 1.35 * (len(shown) + 1) + 0.6))
        halves: Any = figure.subfigures(1, 2, width_ratios=[4.2, 1.3 * len(cells) + 0.2])
        left, right = halves
        ax = left.subplots()
        spread = result.arrays["spread"].reshape(diagnosis.space.shape)
        highest = 1.0 if result.facts[NO_SPREAD] else None
        picture = map_over_grid(diagnosis, spread, ax, cmap="magma", vmin=0, vmax=highest)
        others = ", ".join(diagnosis.space.names[2:])
        label = f"variance over {result.facts['draws']} draws" + (f", mean over {others}" if others else "")
        left.colorbar(picture, ax=ax, label=label, shrink=0.7)
        axes = right.subplots(len(shown) + 1, len(cells), squeeze=False)
        for column, cell in enumerate(cells.tolist()):
            style: dict[str, Any] = {"held_out": bool(diagnosis.held_out[cell]), "row_0": diagnosis.facts["row_0"]}
            for row, (name, array) in enumerate(shown.items()):
                label = diagnosis.space.label(cell) if row == 0 else ""
                show_output(axes[row, column], array[column], label, tone=tone, **style)
                axes[row, 0].set_ylabel(name, fontsize=8)
            show_output(axes[-1, column], deviation[cell], tone=Tone(0.0, most or 1.0, 1.0), **style)
        axes[-1, 0].set_ylabel(f"deviation\n(0 to {most:.2g})", fontsize=8)
        found = verdicts_of(result)
        figure.suptitle("" if found is None else found.told, fontsize=9)
        return figure


def _shown_cells(exist: Bool[np.ndarray, " cell"], held: Bool[np.ndarray, " cell"]) -> Int[np.ndarray, " shown"]:
    """A few unseen cells, spread over all of them; trained ones if none is unseen."""
    unseen = np.flatnonzero(exist & held if (exist & held).any() else exist)
    return np.unique(unseen[np.linspace(0, len(unseen) - 1, MOST_SHOWN).astype(int)])


def _is_judged(inputs: DiagnosisInputs) -> bool:
    return inputs.holdout is not None and min(inputs.holdout.n_id, inputs.holdout.n_ood) > 0


def _outputs(inputs: DiagnosisInputs, number: int) -> Float[Tensor, "cell ..."]:
    assert inputs.draw is not None
    subject = inputs.draw(number)
    return collect(subject, [OUT], memory=2**62)[OUT].rows.reshape(inputs.outputs.shape).double()


def _verdict(inputs: DiagnosisInputs, outputs: Float[Tensor, "cell ..."]) -> Verdict:
    masks = {name: torch.from_numpy(mask) for name, mask in inputs.masks.items()}
    rows = outputs.to(inputs.outputs.dtype)
    truth = inputs.truth if inputs.truth_of is None else inputs.truth_of(rows.flatten(1))
    found = gather_evidence(rows, inputs.space, trained=masks["id"], unseen=masks["ood"], truth=truth, seed=inputs.seed)
    return judge(found)


def _is_none(variance: Tensor, outputs: Tensor) -> bool:
    return float(variance.mean()) <= SAME * float(outputs.double().square().mean())


def _row(draw: str, verdict: Verdict) -> dict[str, Any]:
    return {"draw": draw, "verdict": str(verdict.kind), "right": verdict.right, "id_error": verdict.id_error,
            "ood_error": verdict.ood_error}  # fmt: skip


def _spread_rows(inputs: DiagnosisInputs, mean: Tensor, variance: Tensor) -> list[dict[str, Any]]:
    """The spread of each set of cells, and relative to the variance of the truth (or of the mean) over trained ones."""
    trained = torch.from_numpy(inputs.masks.get("id", inputs.masks["all"])).nonzero()[:, 0]
    if inputs.truth is None:
        rows = mean.flatten(1)[trained]
        own = float((rows - rows.mean(0)).square().mean())
    else:
        centre, total = inputs.truth.mean(trained), 0.0
        for cells in trained.split(cells_per_block(inputs.truth.size)):
            total += float((inputs.truth.rows(cells).double() - centre).square().sum())
        own = total / (len(trained) * inputs.truth.size) if len(trained) else math.nan
    rows = []
    for name, mask in inputs.masks.items():
        if mask.any():
            spread = float(variance[torch.from_numpy(mask)].mean())
            rows.append({"cells": name, "n_cells": int(np.sum(mask)), "spread": spread, "relative": ratio(spread, own)})
    return rows
