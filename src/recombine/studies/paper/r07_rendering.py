"""R7: what the penalties do to the factor-rendered decoder: its embeddings, its volume element, its errors.

Decides C7 and C8. The runs and their rows are those of `recombine.studies.paper.r07_ablation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.model.layers import OUT
from recombine.diagnostics.numerics.geometry import metric_tensor_finite_difference
from recombine.models.decoders import FactorRendered
from recombine.runs.config import RunConfig
from recombine.runs.store import StoredRun
from recombine.studies.framework.baseline import corner, square
from recombine.studies.framework.figure_style import SMALL, by_layer, seeds_note, task_of
from recombine.studies.framework.layerwise import roughness, volume_maps
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Effects, Runs, Study, record_undiagnosed
from recombine.studies.paper import r07_ablation as ablation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIDDLE = 14  # the value whose maps are shown, at N = 32


@dataclass(frozen=True)
class Shapes:
    """N and the length of training."""

    side: int
    epochs: int


SIZES = {
    "smoke": Shapes(side=12, epochs=3),
    "quick": Shapes(side=32, epochs=300),
    "standard": Shapes(side=32, epochs=1000),
    "paper": Shapes(side=32, epochs=1000),
}


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, int], RunConfig]:
    """(variant, seed) → run."""
    sizes = profile.of(SIZES)
    made = ablation.configs(seeds, sizes.epochs, setting=[*square(sizes.side), *corner(sizes.side)])
    return {(variant, config.seed): config for variant, group in made.items() for config in group}


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """The ablation's row and the roughness of every run; embeddings and maps of the first seed of each variant."""
    sizes = profile.of(SIZES)
    found = PartResult("rendering", {"ablation": []}, facts={"configs": {}, "epochs": sizes.epochs})
    for (variant, seed), run in runs.labelled(wanted(profile, seeds)):
        with record_undiagnosed(found, f"run {run.id} ({variant}, seed {seed})"):
            volumes = _log_volumes(run)
            about = {**asdict(ablation.row(variant, run)), "roughness_ood": roughness(volumes[-1], run.task.holdout)}
            found.tables["ablation"].append(about)
            if variant not in found.facts["configs"]:
                found.facts["configs"][variant] = run.config.to_dict()
                found.arrays.update({f"volume/{variant}/{n}": values for n, values in enumerate(volumes)})
                maps = _embeddings(run, round(MIDDLE * sizes.side / 32))
                found.arrays.update({f"map/{variant}/{factor}": one for factor, one in maps.items()})
    found.facts["value"] = round(MIDDLE * sizes.side / 32)
    return found


def _log_volumes(run: StoredRun) -> list[np.ndarray]:
    """By layer. A one-hot code means something on the grid only, hence differences between neighbouring cells."""
    found = metric_tensor_finite_difference(run.model, run.task.space, run.task.inputs)
    assert list(found.layers)[-1] == OUT
    return [layer.log_volume for layer in found.layers.values()]


def _embeddings(run: StoredRun, value: int) -> dict[str, np.ndarray]:
    """The map of one value of each factor."""
    renderer = cast(FactorRendered, run.model).renderer
    maps = renderer.maps().detach().numpy()
    starts = np.cumsum([0, *run.task.space.shape[:-1]])
    return {name: maps[start + value, 0] for name, start in zip(run.task.space.names, starts)}


def plot(part: PartResult) -> dict[str, Figure]:
    """Embeddings, maps of the volume element, errors of all runs."""
    shown = [variant for variant in ablation.VARIANTS if variant in part.facts["configs"]]
    config = part.facts["configs"][shown[0]]
    setting = (
        f"N = {task_of(config).space.shape[0]}, σ = {config['scene']['sigma']:g}, corner from "
        f"{config['holdout']['threshold']:g} on held out, {part.facts['epochs']} epochs"
    )
    figures = {"R07_ablation": ablation.plot([_row(row) for row in part.rows], setting)}
    figures["R07_embeddings"] = _embedding_figure(part, shown)
    holdout = task_of(part.facts["configs"][shown[0]]).holdout
    figures["R07_volume"] = volume_maps(
        {_label(variant): by_layer(part, f"volume/{variant}/") for variant in shown},
        lambda _: holdout,
        f"log₁₀ dv by layer (finite differences), {part.facts['epochs']} epochs, one seed; hold-out in red",
    )
    return figures


def _row(row: dict[str, Any]) -> ablation.AblationRow:
    return ablation.AblationRow(**{key: value for key, value in row.items() if key != "roughness_ood"})


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
        f"what one value of each factor draws, one seed; banding: mean over all values and "
        f"{seeds_note(row['seed'] for row in part.rows)} (1: a band along an image axis)",
        fontsize=SMALL,
    )
    return figure


def effects(part: PartResult) -> Effects:
    """For seeds that have all four variants."""
    found: dict[str, dict[int, float]] = {}
    for seed in sorted({row["seed"] for row in part.rows}):
        of = {row["variant"]: row for row in part.rows if row["seed"] == seed}
        if set(of) != set(ablation.VARIANTS):
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


STUDY = Study(
    key="rendering",
    title="penalties of the factor-rendered decoder: embeddings, volume element, errors",
    results=("R7",),
    claims=("C7", "C8"),
    version=1,
    configs=lambda profile, seeds: list(wanted(profile, seeds).values()),
    rows=rows,
    plot=plot,
    effects=effects,
)
