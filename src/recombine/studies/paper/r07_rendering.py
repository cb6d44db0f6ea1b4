"""R7: the effect of the penalties on the embeddings, volume element and errors of the factor-rendered decoder.

It compares four variants: no penalty, entropy, variance, and both (Liang et al. 2025, Sec. 5). Decides C7 and C8.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.request import DiagnosisRequest
from recombine.plotting.style import BLACK, GREEN, ORANGE, SKY
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import corner, square
from recombine.studies.framework.figure_style import SMALL, by_layer, seeds_note, task_of
from recombine.studies.framework.layer_figures import volume_maps
from recombine.studies.framework.layers import DIFFERENCES, volumes, warp_row
from recombine.studies.framework.learning import Rows, evidence, grouped
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import FirstEffects, Runs, Study, record_undiagnosed
from recombine.studies.framework.verdicts import Effects

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIDDLE = 14  # the value whose maps are shown, at N = 32
ENTROPY = {"entropy": {"weight": 0.1}}
VARIANCE = {"variance": {"weight": 0.01}}
VARIANTS: dict[str, dict[str, Any]] = {
    "none": {},
    "entropy": ENTROPY,
    "variance": VARIANCE,
    "both": {**ENTROPY, **VARIANCE},
}
STYLES = {"none": (BLACK, "o"), "entropy": (ORANGE, "s"), "variance": (SKY, "^"), "both": (GREEN, "D")}
# A one-hot code is only defined on the grid, hence the differences between neighbouring cells.
REQUEST = DiagnosisRequest(parts=("geometry", "maps"), geometry=(DIFFERENCES,))


@dataclass(frozen=True)
class RenderingSettings:
    """N and the length of training."""

    side: int
    epochs: int


SETTINGS = {
    "smoke": RenderingSettings(side=12, epochs=3),
    "quick": RenderingSettings(side=32, epochs=300),
    "standard": RenderingSettings(side=32, epochs=1000),
    "paper": RenderingSettings(side=32, epochs=1000),
}


def config(settings: RenderingSettings, variant: str, seed: int, *, stripes: bool = False) -> RunConfig:
    """A run of the paper's low-rank setting with some of its penalties, and optionally with all stripes."""
    return RunConfig.parse(
        [*square(settings.side), *corner(settings.side), "scene.sigma=1.5",
         "encoding.kind=onehot", "decoder.kind=rendered", "training.kind=low_rank",
         *(["training.examples.single_factor={}"] if stripes else []),
         f"training.terms={json.dumps(VARIANTS[variant])}", f"training.epochs={settings.epochs}", f"seed={seed}"]
    )  # fmt: skip


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, int], RunConfig]:
    """Map (variant, seed) to runs."""
    return {(variant, seed): config(profile.of(SETTINGS), variant, seed) for variant in VARIANTS for seed in seeds}


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Errors, ranks, banding and roughness of every run, and embeddings and maps of each variant's first seed."""
    settings = profile.of(SETTINGS)
    value = round(MIDDLE * settings.side / 32)
    facts: dict[str, Any] = {"configs": {}, "epochs": settings.epochs, "value": value}
    found = PartResult("rendering", {"ablation": []}, facts=facts)
    for (variant, seed), run in runs.labelled(wanted(profile, seeds)):
        with record_undiagnosed(found, f"run {run.id} ({variant}, seed {seed})"):
            diagnosis = runs.diagnosis(run)
            [maps] = diagnosis["maps"].table("summary")
            warp = warp_row(diagnosis, DIFFERENCES)
            found.tables["ablation"].append({
                "seed": seed,
                "variant": variant,
                "run": run.id,
                **{name: run.summary[name] for name in ("id_mse", "ood_mse", "id_localization", "ood_localization")},
                **maps,
                **{name: warp[name] for name in ("roughness_ood", "roughness_ood_median")},
            })  # fmt: skip
            if variant not in facts["configs"]:
                facts["configs"][variant] = run.config.to_dict()
                found.arrays.update({f"volume/{variant}/{n}": v for n, v in volumes(diagnosis).items()})
                drawn = diagnosis["maps"].by_layer("maps")
                found.arrays.update({f"map/{variant}/{factor}": one[value, 0] for factor, one in drawn.items()})
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """Draw embeddings, maps of the volume element, and the errors of all runs."""
    shown = [variant for variant in VARIANTS if variant in part.facts["configs"]]
    config = part.facts["configs"][shown[0]]
    setting = (
        f"N = {task_of(config).space.shape[0]}, σ = {config['scene']['sigma']:g}, corner from "
        f"{config['holdout']['threshold']:g} on held out, {part.facts['epochs']} epochs"
    )
    figures = {"R07_ablation": _scatter(part.rows, setting)}
    figures["R07_embeddings"] = _embedding_figure(part, shown)
    holdout = task_of(part.facts["configs"][shown[0]]).holdout
    figures["R07_volume"] = volume_maps(
        {_label(variant): by_layer(part, f"volume/{variant}/") for variant in shown},
        lambda _: holdout,
        f"log₁₀ dv by layer (finite differences), {part.facts['epochs']} epochs, one seed; hold-out in red",
    )
    return figures


def _scatter(rows: Sequence[dict[str, Any]], setting: str) -> Figure:
    """Plot OOD against ID error with one point per run, on logarithmic axes."""
    from recombine.plotting.style import new_figure

    figure = new_figure(4.6, 4.2)
    ax = figure.subplots()
    for variant, (colour, marker) in STYLES.items():
        group = [row for row in rows if row["variant"] == variant]
        places = [(row["id_mse"], row["ood_mse"]) for row in group]
        if not group:
            continue
        label = f"{variant} ({seeds_note(row['seed'] for row in group)})"
        ax.scatter(
            *zip(*places), label=label, facecolors="none", edgecolors=colour, marker=marker, s=28, linewidths=1.3
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.axline((1e-6, 1e-6), (1e-3, 1e-3), color="0.6", linewidth=0.8, linestyle="--", label="OOD = ID")
    for bounds, key in ((ax.set_xlim, "id_mse"), (ax.set_ylim, "ood_mse")):
        bounds(min(row[key] for row in rows) / 2, max(row[key] for row in rows) * 2)
    ax.set_xlabel("ID mean squared error")
    ax.set_ylabel("OOD mean squared error")
    ax.set_title(f"factor-rendered decoder, one point per run\n{setting}", fontsize=8)
    ax.legend(fontsize=8)
    return figure


def _label(variant: str) -> str:
    return {"none": "no penalty", "both": "both penalties"}.get(variant, f"{variant} only")


def _embedding_figure(part: PartResult, variants: list[str]) -> Figure:
    from recombine.plotting.style import new_figure

    factors = ("x", "y")
    figure = new_figure(2.3 * len(variants) + 0.4, 2.2 * len(factors) + 0.7)
    axes = figure.subplots(len(factors), len(variants), squeeze=False)
    for column, variant in enumerate(variants):
        group = [row["banding"] for row in part.rows if row["variant"] == variant]
        for ax, factor in zip(axes[:, column], factors):
            values = part.arrays[f"map/{variant}/{factor}"]
            size = float(np.abs(values).max()) or 1.0
            picture = ax.imshow(values, cmap="RdBu_r", vmin=-size, vmax=size, origin="lower", interpolation="nearest")
            bar = figure.colorbar(picture, ax=ax, shrink=0.75)
            bar.ax.tick_params(labelsize=6)
            bar.set_label("value of the map", fontsize=6)
            ax.set_xticks([])
            ax.set_yticks([])
        axes[0, column].set_title(f"{_label(variant)}\nbanding {np.mean(group):.2f}", fontsize=9)
    for ax, factor in zip(axes[:, 0], factors):
        ax.set_ylabel(f"{factor} = {part.facts['value']}", fontsize=9)
    figure.supxlabel(
        f"map of one value of each factor, one seed; banding: mean over all values and "
        f"{seeds_note(row['seed'] for row in part.rows)} (1: a band along an image axis)",
        fontsize=SMALL,
    )
    return figure


def first_effects(part: PartResult) -> FirstEffects:
    """Effects for seeds that have all four variants."""
    found: dict[str, dict[int, float]] = {}
    for seed in sorted({row["seed"] for row in part.rows}):
        of = {row["variant"]: row for row in part.rows if row["seed"] == seed}
        if set(of) != set(VARIANTS):
            continue
        inside = {variant: float(np.log10(row["id_mse"])) for variant, row in of.items()}
        outside = {variant: float(np.log10(row["ood_mse"])) for variant, row in of.items()}
        penalized = ("entropy", "variance", "both")
        numbers = {
            "C7.none_best_id": min(inside[v] for v in penalized) - inside["none"],
            "C7.none_worst_ood": outside["none"] - max(outside[v] for v in penalized),
            "C7.entropy_little": outside["none"] - outside["entropy"],
            "C7.variance_much": outside["none"] - outside["variance"],
            "C7.variance_cost": inside["variance"] - inside["none"],
            "C7.both_best": min(outside[v] for v in ("none", "entropy", "variance")) - outside["both"],
            "C8.banding": of["both"]["banding"] - of["none"]["banding"],
            "C8.smoother": of["none"]["roughness_ood"] - of["both"]["roughness_ood"],
        }
        for name, number in numbers.items():
            found.setdefault(name, {})[seed] = number
    return found


def effects(part: PartResult) -> Effects:
    """Differences between variants with the same seed, for seeds that have all four."""

    def log(rows: Rows, variant: str, column: str) -> float:
        return float(np.log10(next(row[column] for row in rows if row["variant"] == variant)))

    def gain(over: str, variant: str) -> Callable[[Rows], float]:
        return lambda rows: log(rows, over, "ood_mse") - log(rows, variant, "ood_mse")

    def cost(variant: str) -> Callable[[Rows], float]:
        return lambda rows: log(rows, variant, "id_mse") - log(rows, "none", "id_mse")

    def banding(rows: Rows, variant: str) -> float:
        return next(row["banding_median"] for row in rows if row["variant"] == variant)

    def smoother(rows: Rows) -> float:
        return log(rows, "none", "roughness_ood_median") - log(rows, "both", "roughness_ood_median")

    numbers: dict[str, Callable[[Rows], float]] = {
        **{f"C7.{variant}_cost": cost(variant) for variant in ("entropy", "variance", "both")},
        "C7.entropy_helps": gain("none", "entropy"),
        "C7.entropy_little": gain("none", "entropy"),
        "C7.variance_much": gain("none", "variance"),
        "C7.both_much": gain("none", "both"),
        "C7.both_best": gain("variance", "both"),
        "C8.banded": lambda rows: banding(rows, "both"),
        "C8.more_banded": lambda rows: banding(rows, "both") - banding(rows, "none"),
        "C8.smoother": smoother,
    }
    groups = grouped(part.rows, lambda rows: {row["variant"] for row in rows} == set(VARIANTS))
    return {name: evidence(groups, number, runs=lambda rows: []) for name, number in numbers.items()}


STUDY = Study(
    key="rendering",
    title="penalties of the factor-rendered decoder: embeddings, volume element, errors",
    results=("R7",),
    claims=("C7", "C8"),
    version=3,
    seeds={"standard": 12},
    wanted=wanted,
    request=REQUEST,
    rows=rows,
    plot=plot,
    effects=effects,
    first_effects=first_effects,
)
