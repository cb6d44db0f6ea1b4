"""What each penalty does to the factor-rendered decoder (Liang et al. 2025, Sec. 5): none, entropy, variance, both.

rows = ablation(Store("runs"), seeds=range(8), epochs=300)     # finished runs are not trained again
plot(rows).savefig("ablation.png")
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recombine.core.errors import InputError
from recombine.core.statistics import median
from recombine.models.decoders import FactorRendered
from recombine.plotting.style import BLACK, GREEN, ORANGE, SKY
from recombine.runs.config import RunConfig
from recombine.runs.store import Store, StoredRun
from recombine.studies.framework.baseline import corner, square

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENTROPY = {"entropy": {"weight": 0.1}}
VARIANCE = {"variance": {"weight": 0.01}}
VARIANTS: dict[str, dict[str, Any]] = {
    "none": {},
    "entropy": ENTROPY,
    "variance": VARIANCE,
    "both": {**ENTROPY, **VARIANCE},
}
SETTING = [
    *square(32),
    *corner(32),
    "scene.sigma=1.5",
    "scene.pixel_centres=half",
    "encoding.kind=onehot",
    "decoder.kind=rendered",
]
LOOKS = {  # Okabe and Ito's colours, told apart by shape as well
    "none": (BLACK, "o"),
    "entropy": (ORANGE, "s"),
    "variance": (SKY, "^"),
    "both": (GREEN, "D"),
}


@dataclass(frozen=True)
class AblationRow:
    """One run of the ablation.

    Attributes:
        seed, variant: Which run.
        run: Its id in the store.
        id_mse, ood_mse: Mean squared error over all ID and all OOD cells.
        id_localization, ood_localization: Share of cells whose peak lies within ±1 pixel of the truth.
        effective_rank: Mean over all factor values of exp(entropy of their mode shares), in [1, rank].
        banding: Mean over all factor values of how far their map is a band along an image axis, in [0, 1].
    """

    seed: int
    variant: str
    run: str
    id_mse: float
    ood_mse: float
    id_localization: float
    ood_localization: float
    effective_rank: float
    banding: float


def configs(
    seeds: Iterable[int], epochs: int | None = None, variants: Iterable[str] = VARIANTS, setting: Sequence[str] = ()
) -> dict[str, list[RunConfig]]:
    """Variant → one configuration per seed, all of the paper's `low_rank` recipe.

    Args:
        seeds: One run each.
        epochs: How many, if not the recipe's 1000.
        variants: Some of none, entropy, variance, both.
        setting: Changes to the setting, "group.key=value".
    """
    seeds, variants = list(dict.fromkeys(seeds)), list(dict.fromkeys(variants))
    unknown = [variant for variant in variants if variant not in VARIANTS]
    if unknown:
        raise InputError(f"There is no variant {', '.join(unknown)}. Variants: {', '.join(VARIANTS)}.")
    if not seeds or not variants:
        raise InputError(f"An ablation needs at least one seed and one variant. Got {len(seeds)} and {len(variants)}.")
    length = [] if epochs is None else [f"training.epochs={epochs}"]
    return {
        variant: [
            RunConfig.parse(
                [*SETTING, "training.kind=low_rank", f"training.terms={json.dumps(VARIANTS[variant])}", *length,
                 *setting, f"seed={seed}"]
            )
            for seed in seeds
        ]
        for variant in variants
    }  # fmt: skip


def ablation(
    store: Store,
    seeds: Iterable[int] = range(8),
    epochs: int | None = None,
    *,
    variants: Iterable[str] = VARIANTS,
    setting: Sequence[str] = (),
    device: str = "auto",
    progress: bool | None = None,
) -> list[AblationRow]:
    """A row per variant and seed; runs that are not in the store are trained, all seeds of a variant together.

    Args:
        store: Where the runs are and go.
        seeds, epochs, variants, setting: See `configs`.
        device, progress: See `Store.train`.
    """
    rows = []
    for variant, wanted in configs(seeds, epochs, variants, setting).items():
        runs = store.train(wanted, device=device, progress=progress)
        rows += [row(variant, run) for run in runs]
    return rows


def row(variant: str, run: StoredRun) -> AblationRow:
    """The row of one run."""
    assert isinstance(run.model, FactorRendered)
    renderer = run.model.renderer
    means = run.scores.summary(resamples=1)
    return AblationRow(
        seed=run.config.seed,
        variant=variant,
        run=run.id,
        id_mse=means["id", "mse"].mean,
        ood_mse=means["ood", "mse"].mean,
        id_localization=means["id", "localization"].mean,
        ood_localization=means["ood", "localization"].mean,
        effective_rank=float(renderer.effective_ranks().detach().mean()),
        banding=float(renderer.banding().detach().mean()),
    )


def medians(rows: Iterable[AblationRow]) -> dict[str, dict[str, float]]:
    """Variant → the median over seeds of every number, and of ood_mse / id_mse as `ratio`."""
    table: dict[str, dict[str, float]] = {}
    for variant, group in _by_variant(rows).items():
        names = [name for name in vars(group[0]) if name not in ("seed", "variant", "run")]
        table[variant] = {name: median(getattr(row, name) for row in group) for name in names}
        table[variant]["ratio"] = median(row.ood_mse / row.id_mse for row in group)
    return table


def _by_variant(rows: Iterable[AblationRow]) -> Mapping[str, list[AblationRow]]:
    groups: dict[str, list[AblationRow]] = {}
    for row in rows:
        groups.setdefault(row.variant, []).append(row)
    return groups


def _coinciding(rows: Sequence[AblationRow], within: float = 0.03) -> list[tuple[AblationRow, int]]:
    """Points that lie on one another, within 0.03 decades, as one of them and their number."""
    places = [(math.log10(row.id_mse), math.log10(row.ood_mse)) for row in rows]
    found, seen = [], set()
    for i, (row, here) in enumerate(zip(rows, places)):
        close = {j for j, there in enumerate(places) if max(abs(a - b) for a, b in zip(here, there)) < within}
        if len(close) > 1 and i not in seen:
            found.append((row, len(close)))
            seen |= close
    return found


def plot(rows: Sequence[AblationRow], setting: str = "") -> Figure:
    """OOD against ID error, a point per run, on logarithmic axes. Nothing is trained.

    Args:
        rows: The runs.
        setting: What to say of them under the title.
    """
    from recombine.plotting.style import new_figure

    if not rows:
        raise InputError("There is nothing to draw: no rows.")
    figure = new_figure(4.6, 4.2)
    ax = figure.subplots()
    for variant, group in _by_variant(rows).items():
        colour, marker = LOOKS.get(variant, ("0.5", "x"))
        ax.scatter(
            [row.id_mse for row in group],
            [row.ood_mse for row in group],
            label=f"{variant} ({len(group)} {'seed' if len(group) == 1 else 'seeds'})",
            color=colour,
            marker=marker,
            s=28,
            alpha=0.8,
        )
        for row, count in _coinciding(group):
            ax.annotate(f"{count} ×", (row.id_mse, row.ood_mse), (-6, 0), textcoords="offset points", fontsize=7,
                        ha="right", va="center", color=colour)  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ends = [bound(getattr(row, key) for row in rows for key in ("id_mse", "ood_mse")) for bound in (min, max)]
    ax.plot(ends, ends, color="0.6", linewidth=0.8, linestyle="--", label="OOD = ID")
    ax.set_xlabel("ID mean squared error")
    ax.set_ylabel("OOD mean squared error")
    title = "factor-rendered decoder, one point per run (n ×: n points that coincide)"
    ax.set_title(f"{title}\n{setting}".strip(), fontsize=8)
    ax.legend(fontsize=8)
    return figure
