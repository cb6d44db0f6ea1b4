"""Complexity: which factors a layer mixes, and how many products of single-factor functions the outputs need."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int, Shaped
from matplotlib.figure import Figure
from torch import Tensor

from recombine.core.errors import Missing, NotComputable
from recombine.diagnostics.drawing import style_layer_axis
from recombine.diagnostics.findings import Absence, PartResult, Rows
from recombine.diagnostics.inputs import NO_HOLDOUT, DiagnosisInputs
from recombine.diagnostics.layer_activations import LayerActivations
from recombine.diagnostics.numerics.budget import Budget
from recombine.diagnostics.numerics.complexity import distribution_complexity, function_complexity
from recombine.diagnostics.numerics.grids import blocks
from recombine.diagnostics.numerics.partial_factorization import (
    MOST_FACTORS,
    grouping_of,
    partial_factorization,
)
from recombine.diagnostics.page_content import LayerColumn
from recombine.diagnostics.part import PARTS, LayerPart
from recombine.diagnostics.request import DiagnosisRequest
from recombine.plotting.style import BLUES, new_figure

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

CP_LARGEST, CP_INITS = 8, 2
CP_OUTPUTS = 4  # entries of an output that are decomposed with three or more factors
MOST_NUMBERS = 2**24  # cells times entries that are decomposed with two factors
MIXTURE_STEPS = 300


@PARTS.register
class Complexity(LayerPart):
    """Partial factorization of every layer; product terms of the outputs, the truth and the trained combinations."""

    name = "complexity"
    order = 80
    reads: ClassVar = {"budget": "budget"}
    tables: ClassVar = {
        "layers": {
            "layer": "Name of the layer.",
            "units": "Number of units.",
            "up_to_*": "Share of the weight of terms of at most this many factors.",
            "grouping": "The finest grouping of factors that explains all but `tolerance`.",
            "grouping_score": "Share that it explains.",
            "tolerance": "Share that may remain unexplained.",
        },
        "terms": {
            "layer": "Name of the layer.",
            "term": "Which factors.",
            "order": "Number of factors.",
            "theta": "Variance of the term, summed over units.",
        },
        "functions": {
            "function": "output or truth.",
            "exact": "Products of single-factor functions needed for an error of numerically 0; NaN if not found.",
            "approximate": "Products needed for a relative error of epsilon.",
            "epsilon": "That relative error.",
            "proven": "Whether it is proven that fewer products do not suffice.",
            "complete": "Whether the search was completed within the budget.",
            "outputs": "Number of entries of each output that were decomposed.",
            "of_outputs": "Number of entries of each output.",
        },
        "distributions": {
            "distribution": "Which distribution.",
            "rank": "Number of product distributions in the mixture; NaN if more than were tried.",
            "lower_bound": "Lower bound on the number of products.",
            "measure": "How the distance is measured: kl or tv.",
            "epsilon": "Largest allowed distance.",
            "tried": "Largest mixture tried.",
            "complete": "Whether the search was completed within the budget.",
            "kl_of_one": "Kullback-Leibler divergence from a single product.",
            "tv_of_one": "Total variation distance from a single product.",
        },
    }
    layer_columns: ClassVar = {"single_factor": LayerColumn("single-factor share"), "grouping": LayerColumn("grouping")}
    on_page = False

    def study(self, layer: LayerActivations, inputs: DiagnosisInputs) -> PartResult:
        inputs.check_complete("Partial factorization")
        space = inputs.space
        components = layer.components if space.n_factors > 1 else None
        expansion = partial_factorization(layer.rows, space, components=components)
        row: dict[str, Any] = {"layer": layer.name, "units": layer.units}
        row |= {f"up_to_{order}": float(share) for order, share in enumerate(expansion.cumulative, 1)}
        if 1 < space.n_factors <= MOST_FACTORS:
            grouping = grouping_of(expansion)
            groups = " ".join("{" + ",".join(group) + "}" for group in grouping.groups)
            row |= {"grouping": groups, "grouping_score": grouping.score, "tolerance": grouping.tolerance}
        terms = [
            {"layer": layer.name, "term": ",".join(term), "order": len(term), "theta": float(theta)}
            for term, theta in zip(expansion.terms, expansion.theta)
        ]
        return PartResult(self.name, {"layers": [row], "terms": terms})

    def finish(self, result: PartResult, inputs: DiagnosisInputs) -> PartResult:
        budget = Budget.seconds(inputs.request.budget)
        for table, rows_of in (("functions", _function_rows), ("distributions", _distribution_rows)):
            result.tables[table], missing = rows_of(inputs, budget)
            result.missing.update(missing)
        cut_short = any(not row["complete"] for table in ("functions", "distributions") for row in result.tables[table])
        result.facts.update(inputs.request.budget_facts(cut_short))
        return result

    def answers(self, facts: Mapping[str, Any], request: DiagnosisRequest) -> bool:
        return request.same_budget(facts)

    def layer_numbers(self, result: PartResult) -> dict[str, dict[str, Any]]:
        return {
            row["layer"]: {"single_factor": row["up_to_1"], "grouping": row.get("grouping", "")}
            for row in result.tables.get("layers", [])
        }

    def summary(self, result: PartResult) -> str:
        functions = [f"{row['function']} {_rank(row['approximate'])}" for row in result.table("functions")]
        return f"products of single-factor functions needed: {', '.join(functions) or 'unknown'}"

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """Cumulative share of terms of up to 1, 2, … factors, per layer."""
        rows = result.table("layers") if "layers" in result.tables else []
        if not rows:
            raise NotComputable(
                Missing.DEGENERATE, "There is nothing to draw, because no layer's expansion was computed."
            )
        orders = [key for key in rows[0] if key.startswith("up_to_")]
        figure = new_figure(max(4.5, 0.55 * len(rows) + 2.2), 3.6)
        ax = figure.subplots()
        previous = np.zeros(len(rows))
        for order, key in enumerate(orders, 1):
            shares = np.array([row[key] for row in rows])
            label = "single-factor terms" if order == 1 else f"terms of {order} factors"
            ax.bar(range(len(rows)), shares - previous, bottom=previous, color=BLUES[min(order, 4) - 1], width=0.7,
                   label=label, edgecolor="0.4", linewidth=0.5)  # fmt: skip
            ax.plot(range(len(rows)), shares, ".-", color="0.2", lw=0.8, ms=4)
            previous = shares
        for i, row in enumerate(rows):
            if row.get("grouping"):
                ax.text(i, 1.01, row["grouping"].replace(" ", "\n"), ha="center", va="bottom", fontsize=7)
        style_layer_axis(ax, tuple(row["layer"] for row in rows), "cumulative share PF")
        lines = max((len(row.get("grouping", "").split()) for row in rows), default=0)
        ax.set_ylim(0, 1.06 + 0.06 * lines)
        ax.set_yticks(np.linspace(0, 1, 6))
        functions = [
            f"products needed for the {r['function']}: {_rank(r['approximate'])} (exactly {_rank(r['exact'])})"
            for r in result.table("functions")
        ]
        figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        ax.set_title("\n".join(["partial factorization by layer", *functions]), fontsize=9)
        return figure


def _rank(value: Any) -> str:
    return "more than tried" if value is None or math.isnan(value) else f"{value:g}"


def _function_rows(inputs: DiagnosisInputs, budget: Budget) -> tuple[Rows, dict[str, Absence]]:
    """R* and R_ε of the outputs and of the truth."""
    rows: Rows = []
    missing: dict[str, Absence] = {}
    chosen = _chosen_outputs(inputs)
    settings: dict[str, Any] = {} if inputs.space.n_factors <= 2 else {"largest": CP_LARGEST, "inits": CP_INITS}
    for index, name in enumerate(("output", "truth")):
        try:
            inputs.check_complete("The number of products")
            numbers = _numbers(name, inputs, chosen)
            share = budget.share(3 - index)
            found = function_complexity(numbers, inputs.space, seed=inputs.seed, budget=share, **settings)
        except NotComputable as error:
            missing[f"complexity of the {name}"] = Absence.of(error)
            continue
        rows.append({"function": name, "exact": found.exact, "approximate": found.approximate,
                     "epsilon": found.epsilon, "proven": found.proven, "complete": found.complete,
                     "outputs": len(chosen),
                     "of_outputs": inputs.outputs[0].numel()})  # fmt: skip
    return rows, missing


def _chosen_outputs(inputs: DiagnosisInputs) -> Int[Tensor, " output"]:
    """The entries of an output that are decomposed: all of them, or those that vary most."""
    outputs = inputs.outputs.flatten(1)
    most = MOST_NUMBERS // len(outputs) if inputs.space.n_factors <= 2 else CP_OUTPUTS
    if outputs.shape[1] <= most:
        return torch.arange(outputs.shape[1])
    energy = torch.cat([block.var(0) for block in blocks(outputs[inputs.subject.cells])])
    return energy.argsort(descending=True)[: max(1, most)].sort().values


def _numbers(name: str, inputs: DiagnosisInputs, chosen: Int[Tensor, " output"]) -> Shaped[Tensor, "cell output"]:
    if name == "output":
        return inputs.outputs.flatten(1)[:, chosen]
    return inputs.known_truth.columns(chosen, inputs.subject.cells)


def _distribution_rows(inputs: DiagnosisInputs, budget: Budget) -> tuple[Rows, dict[str, Absence]]:
    """The number of product distributions whose mixture is the distribution of the trained combinations.

    A single one would mean that x and y are independent in training; a hold-out makes them dependent.
    """
    what = "complexity of the trained combinations"
    if inputs.holdout is None:
        return [], {what: Absence(Missing.NO_HOLDOUT, NO_HOLDOUT)}
    if inputs.holdout.n_id == 0:
        return [], {what: Absence(Missing.TOO_FEW_CELLS, "no combination was trained")}
    trained = torch.from_numpy(inputs.holdout.id_mask.ravel()).double()
    found = distribution_complexity(
        trained, inputs.space, largest=CP_LARGEST, inits=CP_INITS, iterations=MIXTURE_STEPS, seed=inputs.seed,
        budget=budget,
    )  # fmt: skip
    row = {"distribution": "trained combinations", "rank": found.rank, "lower_bound": found.lower_bound,
           "measure": found.measure, "epsilon": found.epsilon, "tried": found.tried[-1], "complete": found.complete,
           "kl_of_one": float(found.kl[0]), "tv_of_one": float(found.tv[0])}  # fmt: skip
    return [row], {}
