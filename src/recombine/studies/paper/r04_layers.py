"""R4, R5 and R6: what happens to the factors from layer to layer of CNNs. Decides C4, C5 and C6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.diagnostics.findings import PartResult
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import CODE_LABELS, TWO_CODES, cnn
from recombine.studies.framework.figure_style import SMALL, by_layer, seeds_note, task_of
from recombine.studies.framework.layerwise import curves, look, loss_of_factorization, trend, volume_maps
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Effects, Runs, Study, record_undiagnosed

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


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, int, int], RunConfig]:
    """(code, depth, seed) → run."""
    return {
        (code, depth, seed): cnn(profile, code, depth, seed)
        for code in TWO_CODES
        for depth in profile.depths
        for seed in seeds
    }


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """A row per layer of every run, a row of warps per run, and the maps of the first seed at the standard depth."""
    found = PartResult("layers", {"layers": [], "warp": []}, facts={"configs": {}, "depth": profile.standard_depth})
    for (code, depth, seed), run in runs.labelled(wanted(profile, seeds)):
        with record_undiagnosed(found, f"run {run.id} ({code}, depth {depth}, seed {seed})"):
            seen = look(run)
            about = {"code": code, "depth": depth, "seed": seed, "run": run.id}
            found.tables["layers"] += [{**about, **row} for row in seen.rows]
            found.tables["warp"].append({**about, **seen.warp})
            if depth == profile.standard_depth and code not in found.facts["configs"]:
                found.facts["configs"][code] = run.config.to_dict()
                found.arrays.update({f"volume/{code}/{number}": values for number, values in seen.volumes.items()})
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """Probes and factorization by layer and depth; maps of the volume element."""
    lines = {CODE_LABELS[code]: by_layer(part, f"volume/{code}/") for code in part.facts["configs"]}
    configs = {CODE_LABELS[code]: config for code, config in part.facts["configs"].items()}
    seeds = seeds_note(row["seed"] for row in part.rows)
    figures = {
        "R04_probes": _panels(part, PROBES, f"R² of linear probes, mean over x and y; mean and range of {seeds}", -1.0),
        "R05_factorization": _panels(part, FACTORIZATIONS, f"factorization F; mean and range of {seeds}", None),
    }
    if lines:
        figures["R06_volume"] = volume_maps(
            lines,
            lambda label: task_of(configs[label]).holdout,
            f"log₁₀ dv by layer, CNN of depth {part.facts['depth']}, one seed; hold-out in red",
        )
    return figures


def _panels(part: PartResult, columns: dict[str, str], title: str, least: float | None) -> Figure:
    """A line of panels per code, one panel per way of scoring."""
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
        bottom, top = axes[0, 0].get_ylim()
        axes[0, 0].set_ylim(max(bottom, least - 0.05), max(top, 1.03))
    axes[0, 0].legend(frameon=False, fontsize=7, loc="lower left")
    figure.suptitle(title + (f"; below {least:g} cut off" if cut else ""), fontsize=10)
    return figure


def effects(part: PartResult) -> Effects:
    """Trends, losses and distortions for seeds that have all depths and both codes."""
    found: dict[str, dict[int, float]] = {}
    depths = sorted({row["depth"] for row in part.rows})
    for seed in sorted({row["seed"] for row in part.rows}):
        of: dict[tuple[str, int], list[dict[str, Any]]] = {
            (code, depth): [r for r in part.rows if (r["code"], r["depth"], r["seed"]) == (code, depth, seed)]
            for code in TWO_CODES
            for depth in depths
        }
        if all(of.values()):
            numbers: dict[str, Any] = {
                "C4.probe": np.mean([trend(group, "probe_id_to_ood") for group in of.values()]),
                "C4.factorization": np.mean([trend(group, "factorization") for group in of.values()]),
            }
            rate = {key: loss_of_factorization(group, per_layer=True) for key, group in of.items()}
            numbers["C5.than_bump"] = rate["ramp", depths[0]] - rate["bump", depths[0]]
            numbers["C5.than_deep"] = rate["ramp", depths[0]] - rate["ramp", depths[-1]]
            for name, number in numbers.items():
                found.setdefault(name, {})[seed] = float(number)
    for row in part.table("warp"):
        if row["depth"] == part.facts["depth"]:
            found.setdefault(f"C6.{row['code']}", {})[row["seed"]] = row["distortion_ood"] - row["distortion_id"]
    return found


STUDY = Study(
    key="layers",
    title="probes, factorization and volume element by layer of CNNs of all depths",
    results=("R4", "R5", "R6"),
    claims=("C4", "C5", "C6"),
    version=1,
    configs=lambda profile, seeds: list(wanted(profile, seeds).values()),
    rows=rows,
    plot=plot,
    effects=effects,
)
