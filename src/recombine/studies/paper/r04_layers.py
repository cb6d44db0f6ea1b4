"""R4 and R5: how the representation of the factors changes across the layers of CNNs. Decides C4 and C5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.core.statistics import median
from recombine.diagnostics.findings import PartResult
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import CODE_LABELS, TWO_CODES, two_widths
from recombine.studies.framework.figure_style import SMALL, seeds_note
from recombine.studies.framework.layer_figures import curves
from recombine.studies.framework.layers import (
    REQUEST,
    before_output,
    fall_of_factorization,
    layer_rows,
    loss_of_factorization,
    trend,
)
from recombine.studies.framework.learning import all_lengths, evidence, ladders, last_steps, learning
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import FirstEffects, Runs, Study, record_undiagnosed
from recombine.studies.framework.verdicts import Effects
from recombine.studies.framework.width_check import TABLE, at_width, width_check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBES = {
    "probe_in_sample": "fitted and scored on all cells",
    "probe_id_to_ood": "fitted on ID, scored on OOD",
    "probe_ridge_ood": "ridge, fitted on ID, scored on OOD",
}
FACTORIZATIONS = {
    "factorization": "exact, mean of F over cells",
    "factorization_ratio_of_means": "exact, F of the mean metric",
    "factorization_differences_ratio_of_means": "finite differences,\nF of the mean metric",
}


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[int, str, int, int], RunConfig]:
    """Map (width, code, depth, seed) to runs. Some seeds and depths are also trained at the profile's full width."""
    checked = sorted({profile.depths[0], profile.standard_depth, profile.depths[-1]})
    return two_widths(profile, seeds, profile.depths, checked, seeds[: profile.check_seeds])


def more(profile: Profile, seeds: Sequence[int], runs: Runs) -> list[RunConfig]:
    """The same networks trained for longer, until they have learnt their training pairs."""
    return all_lengths(ladders(runs, wanted(profile, seeds), profile.lengths))


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """One row per layer of every run, one row per run that says whether it has learnt, and the width check."""
    facts = {"width": profile.inner_width}
    found = PartResult("layers", {"layers": [], "runs": []}, facts=facts)
    ends = last_steps(ladders(runs, wanted(profile, seeds), profile.lengths))
    for (width, code, depth, seed), run in runs.labelled(ends):
        with record_undiagnosed(found, f"run {run.id} ({code}, width {width}, depth {depth}, seed {seed})"):
            about = {"code": code, "width": width, "depth": depth, "seed": seed, "run": run.id}
            found.tables["layers"] += [{**about, **row} for row in layer_rows(runs.diagnosis(run))]
            found.tables["runs"].append({**about, **learning(run)})
    checked = {row["depth"] for row in found.tables["runs"] if row["width"] == profile.width}
    found.tables[TABLE] = width_check(
        found, _effects, narrow=profile.inner_width, wide=profile.width, keep=lambda row: row["depth"] in checked
    )
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """Plot probes and factorization by layer and depth."""
    part = at_width(part, part.facts["width"])
    seeds = seeds_note(row["seed"] for row in part.rows)
    return {
        "R04_probes": _panels(part, PROBES, f"R² of linear probes, mean over x and y; mean and range of {seeds}", -1.0),
        "R05_factorization": _panels(part, FACTORIZATIONS, f"factorization F; mean and range of {seeds}", None),
    }


def _panels(part: PartResult, columns: dict[str, str], title: str, least: float | None) -> Figure:
    """One row of panels per code and one panel per kind of score."""
    from recombine.plotting.style import new_figure

    figure = new_figure(3.1 * len(columns), 2.6 * len(TWO_CODES) + 0.4)
    axes = figure.subplots(len(TWO_CODES), len(columns), squeeze=False, sharey=True)
    depths = sorted({row["depth"] for row in part.rows})
    cut = False
    for line, code in zip(axes, TWO_CODES):
        for ax, (column, label) in zip(line, columns.items()):
            chosen = [row for row in part.rows if row["code"] == code]
            curves(ax, chosen, column, depths)
            ax.set_title(label, fontsize=SMALL)
            lowest = min((row[column] for row in chosen if np.isfinite(row[column])), default=0.0)
            cut |= least is not None and lowest < least
        line[0].set_ylabel(CODE_LABELS[code], fontsize=9)
    if least is not None:
        axes[0, 0].set_ylim(max(axes[0, 0].get_ylim()[0], least - 0.05), 1.05)  # R² is at most 1
    axes[0, 0].legend(frameon=False, fontsize=7, loc="lower left")
    figure.suptitle(title + (f"; clipped below {least:g}" if cut else ""), fontsize=10)
    return figure


Networks = dict[tuple[str, int], list[dict[str, Any]]]


def _networks(part: PartResult) -> tuple[list[int], dict[int, Networks]]:
    """All depths, and seed → (code, depth) → rows by layer, for seeds that have all depths and both codes."""
    depths = sorted({row["depth"] for row in part.rows})
    found: dict[int, Networks] = {}
    for seed in sorted({row["seed"] for row in part.rows}):
        of: Networks = {
            (code, depth): [r for r in part.rows if (r["code"], r["depth"], r["seed"]) == (code, depth, seed)]
            for code in TWO_CODES
            for depth in depths
        }
        if all(of.values()):
            found[seed] = of
    return depths, found


def effects(part: PartResult) -> Effects:
    """Trends, losses and the fall of F, for seeds that have all depths and both codes."""
    return _effects(at_width(part, part.facts["width"]))


def _effects(part: PartResult) -> Effects:
    """The same for networks of one width."""
    depths, networks = _networks(part)
    groups = {seed: [row for row in part.table("runs") if row["seed"] == seed] for seed in networks}
    least = max((row["layer"] for n in networks.values() for row in before_output(n["ramp", depths[0]])), default=0)

    def at_least_depth(network: Networks, depth: int) -> float:
        return network["ramp", depth][least]["factorization_differences_ratio_of_means"]

    def lost(rows: list[dict[str, Any]]) -> float:
        kept = before_output(rows)
        return kept[0]["probe_id_to_ood"] - kept[-1]["probe_id_to_ood"]

    numbers: dict[str, Callable[[Networks], float]] = {
        "C4.probe": lambda n: mean([trend(group, "probe_id_to_ood") for group in n.values()]),
        "C4.factorization": lambda n: mean([trend(group, "factorization") for group in n.values()]),
        "C4.probe_loss": lambda n: median([lost(group) for group in n.values()]),
        "C4.loss_bump": lambda n: mean([fall_of_factorization(n["bump", depth]) for depth in depths]),
        "C4.loss_ramp": lambda n: mean([fall_of_factorization(n["ramp", depth]) for depth in depths]),
        "C5.than_bump": lambda n: (
            fall_of_factorization(n["ramp", depths[0]]) - fall_of_factorization(n["bump", depths[0]])
        ),
        "C5.than_deep": lambda n: at_least_depth(n, depths[-1]) - at_least_depth(n, depths[0]),
    }
    return {
        name: evidence(groups, lambda rows, of=of: of(networks[rows[0]["seed"]]), runs=lambda rows: rows)
        for name, of in numbers.items()
    }


def first_effects(part: PartResult) -> FirstEffects:
    """Trends and losses per layer."""
    depths, networks = _networks(at_width(part, part.facts["width"]))
    found: dict[str, dict[int, float]] = {}
    for seed, of in networks.items():
        rate = {key: loss_of_factorization(group, per_layer=True) for key, group in of.items()}
        numbers = {
            "C4.probe": mean([trend(group, "probe_id_to_ood") for group in of.values()]),
            "C4.factorization": mean([trend(group, "factorization") for group in of.values()]),
            "C5.than_bump": rate["ramp", depths[0]] - rate["bump", depths[0]],
            "C5.than_deep": rate["ramp", depths[0]] - rate["ramp", depths[-1]],
        }
        for name, number in numbers.items():
            found.setdefault(name, {})[seed] = number
    return found


STUDY = Study(
    key="layers",
    title="probes and factorization by layer of CNNs of all depths",
    results=("R4", "R5"),
    claims=("C4", "C5"),
    version=4,
    seeds={"standard": 8},
    wanted=wanted,
    more=more,
    request=REQUEST,
    rows=rows,
    plot=plot,
    effects=effects,
    first_effects=first_effects,
)
