"""R9: the number of examples needed to place unseen pairs, by N, with and without stripes. Decides C11.

Liang et al. 2025, Sec. 5 reports growth as N³ for bumps alone and as N with stripes. There is one search per N, seed
and kind of data. All searches advance in parallel: each is replayed over the finished runs, and the first missing run
of each is trained next.

The middle quarter of each side is held out, which is an integer number of values for every N. The range [6, 22] of the
other studies does not work here: with it, no number of bumps alone places 90 % of the unseen pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.core.errors import Missing, NotComputable
from recombine.core.statistics import median
from recombine.diagnostics.findings import Absence, PartResult
from recombine.plotting.style import BLUE, MARKERS, VERMILION
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import PAPER_RECIPE, REMEDY, square
from recombine.studies.framework.figure_style import SMALL, seeds_note, shades, tidy
from recombine.studies.framework.growth import Observation, fit_growth
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.search import LEVEL, Bracket, bracket
from recombine.studies.framework.study import FirstEffects, Runs, Study
from recombine.studies.framework.verdicts import Effects, Evidence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {"bumps": False, "stripes + bumps": True}
RESAMPLES = 1000


@dataclass(frozen=True)
class ScalingSettings:
    """The values of N, the CNN, the steps of every run, and the resolution of the search for thresholds.

    `recipe` replaces the `recommended` recipe of the studies on stripes.
    """

    sides: tuple[int, ...]
    width: int
    depth: int
    steps: int
    resolution: float
    recipe: tuple[str, ...] = ()


SETTINGS = {
    "smoke": ScalingSettings(sides=(8, 12), width=4, depth=2, steps=5, resolution=0.5),
    "quick": ScalingSettings(sides=(12, 16, 24), width=16, depth=4, steps=1000, resolution=0.25),
    "standard": ScalingSettings(sides=(12, 16, 24, 32), width=16, depth=4, steps=2000, resolution=0.25),
    "paper": ScalingSettings(
        sides=(24, 28, 32, 36, 40), width=128, depth=8, steps=3125, resolution=0.1, recipe=PAPER_RECIPE
    ),
}


class _Unknown(Exception):
    """A search needs a run that is not finished."""


@dataclass(frozen=True)
class Search:
    """The state of one search.

    Attributes:
        asked: The runs it used, including the one it waits for.
        found: Its result; None if it waits for a run, or if that run failed.
    """

    kind: str
    side: int
    seed: int
    asked: list[RunConfig]
    found: Bracket | None


def middle_quarter(side: int) -> list[str]:
    """The hold-out: the middle quarter of each side."""
    return ["holdout.kind=side", "holdout.fraction=0.25"]


HeldOut = Callable[[int], list[str]]  # maps N to overrides of the hold-out


def searches(
    runs: Runs,
    settings: ScalingSettings,
    seeds: Sequence[int],
    kinds: Mapping[str, bool] = KINDS,
    held_out: HeldOut = middle_quarter,
) -> Iterator[Search]:
    """All searches, each replayed over the finished runs as far as possible."""
    for kind, stripes in kinds.items():
        for side in settings.sides:
            available = search_config(settings, side, 1, 0, stripes, held_out).task().holdout.n_id
            for seed in seeds:
                asked: list[RunConfig] = []

                def localization(
                    bumps: int, side: int = side, seed: int = seed, stripes: bool = stripes, asked: list = asked
                ) -> float:
                    asked.append(search_config(settings, side, bumps, seed, stripes, held_out))
                    run = runs.get(asked[-1])
                    if run is None:
                        raise _Unknown
                    return run.summary["ood_localization"] or 0.0

                try:
                    found = bracket(localization, available, least=0 if stripes else 1, start=side,
                                    resolution=settings.resolution)  # fmt: skip
                except _Unknown:
                    found = None
                yield Search(kind, side, seed, asked, found)


def search_config(
    settings: ScalingSettings, side: int, bumps: int, seed: int, stripes: bool, held_out: HeldOut = middle_quarter
) -> RunConfig:
    """A run on this many bumps, with or without all stripes."""
    return RunConfig.parse(
        [*REMEDY, *square(side), *held_out(side), f"decoder.depth={settings.depth}",
         f"decoder.width={settings.width}", f"training.examples.single_factor={'{}' if stripes else 'null'}",
         f"training.examples.cells.count={bumps}", f"training.steps={settings.steps}", *settings.recipe, f"seed={seed}"]
    )  # fmt: skip


def wanted(profile: Profile, seeds: Sequence[int]) -> list[RunConfig]:
    """The first run of every search."""
    settings = profile.of(SETTINGS)
    return [
        search_config(settings, side, 0 if stripes else 1, seed, stripes)
        for stripes in KINDS.values()
        for side in settings.sides
        for seed in seeds
    ]


def more(profile: Profile, seeds: Sequence[int], runs: Runs) -> list[RunConfig]:
    """All runs that the searches used or wait for."""
    return [config for search in searches(runs, profile.of(SETTINGS), seeds) for config in search.asked]


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """One row per search, and one per run that it used."""
    found = PartResult("scaling", {"thresholds": [], "tried": []}, facts={"level": LEVEL})
    for search in searches(runs, profile.of(SETTINGS), seeds):
        about = {"kind": search.kind, "side": search.side, "seed": search.seed}
        if search.found is None or search.found.reached is None:
            why = "a run failed" if search.found is None else f"{found.facts['level']:g} {search.found}"
            listed = [found.missing[search.kind].reason] if search.kind in found.missing else []
            reason = ", ".join([*listed, f"N = {search.side}, seed {search.seed}: {why}"])
            found.missing[search.kind] = Absence(Missing.NOT_APPLICABLE, reason)
        if search.found is None:
            continue
        result, stripes = search.found, 2 * search.side if KINDS[search.kind] else 0
        bumps = -1 if result.reached is None else result.reached
        found.tables["thresholds"].append(
            {**about, "reached": bumps >= 0, "bumps": bumps, "below": result.below, "most": result.most,
             "examples": float(bumps + stripes) if bumps >= 0 else math.nan}
        )  # fmt: skip
        tried = sorted(result.tried.items())
        found.tables["tried"] += [{**about, "bumps": m, "ood_localization": placed} for m, placed in tried]
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """Plot thresholds over N with slopes, and localization over the number of bumps."""
    if not part.rows:
        return {}
    return {"R09_thresholds": _thresholds(part), "R09_localization": _localization(part)}


def points(examples: Sequence[float], *, seed: int = 0) -> tuple[float, float, float]:
    """Median over seeds with its 95 % bootstrap interval. Infinity stands for a threshold beyond the budget."""
    values = np.asarray(examples, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    medians = np.sort(np.median(values[drawn], axis=1))
    low, high = (float(medians[round(q * (RESAMPLES - 1))]) for q in (0.025, 0.975))
    return median(values), low, high


def _thresholds(part: PartResult) -> Figure:
    """Plot the needed examples against N on logarithmic axes, with N³ and N through the first point of each kind.

    A threshold that was not reached is drawn as an arrow that ends at the budget.
    """
    from recombine.plotting.style import new_figure

    figure = new_figure(5.0, 4.6)
    ax = figure.subplots()
    styles = {"bumps": ("bumps only", VERMILION), "stripes + bumps": ("2N stripes + bumps", BLUE)}
    for (kind, (label, colour)), marker in zip(styles.items(), MARKERS):
        rows = [row for row in part.rows if row["kind"] == kind]
        found = []
        for side in sorted({row["side"] for row in rows}):
            here = [row for row in rows if row["side"] == side]
            budget = here[0]["most"] + (2 * side if KINDS[kind] else 0)
            middle, low, high = points([row["examples"] if row["reached"] else math.inf for row in here])
            found.append((side, min(middle, budget), min(low, budget), min(high, budget), high > budget))
        if not found:
            continue
        sides, middles, lows, highs, opened = (np.array(column) for column in zip(*found))
        bars = np.stack([middles - lows, np.where(opened, 0, highs - middles)])
        seeds = seeds_note(row["seed"] for row in rows)
        ax.errorbar(sides, middles, yerr=bars, color=colour, marker=marker, capsize=3, label=f"{label} ({seeds})")
        if opened.any():
            up = np.stack([0 * highs, highs - middles])[:, opened]
            ax.errorbar(sides[opened], middles[opened], yerr=up, lolims=True, fmt="none", color=colour, capsize=4,
                        label=f"{label}: not reached by some seeds at the arrow's tip")  # fmt: skip
        power = 1 if KINDS[kind] else 3  # the paper's
        line = middles[0] * (sides / sides[0]) ** power
        ax.plot(sides, line, color=colour, linestyle=":", linewidth=0.9)
        ax.annotate(f"∝ N{'³' * (power == 3)}", (sides[-1], line[-1]), xytext=(4, 0), textcoords="offset points",
                    color=colour, fontsize=8, va="center", annotation_clip=False)  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ticks = sorted({row["side"] for row in part.rows})
    ax.set_xlim(right=1.25 * ticks[-1])  # leaves space for the labels of lines
    ax.set_xticks(ticks, [str(side) for side in ticks])
    ax.set_xticks([], minor=True)
    low, high = ax.get_ylim()
    counts = [m * 10**e for e in range(5) for m in (1, 2, 3, 6) if low <= m * 10**e <= high]
    ax.set_yticks(counts, [str(count) for count in counts])
    ax.set_yticks([], minor=True)
    ax.set_xlabel("N")
    ax.set_ylabel(f"examples for OOD localization ≥ {part.facts['level']:g}\n(median, 95 % interval)", fontsize=9)
    figure.legend(loc="outside lower center", fontsize=7)
    return figure


def _localization(part: PartResult) -> Figure:
    from recombine.plotting.style import new_figure

    figure = new_figure(3.6 * len(KINDS), 3.0)
    axes = figure.subplots(1, len(KINDS), sharey=True)
    tried = part.table("tried")
    sides = sorted({row["side"] for row in tried})
    for ax, kind in zip(axes, KINDS):
        for side, shade, marker in zip(sides, shades(len(sides)), "os^Dv<>"):
            chosen = [row for row in tried if (row["kind"], row["side"]) == (kind, side)]
            ax.scatter([row["bumps"] for row in chosen], [row["ood_localization"] for row in chosen], color=shade,
                       marker=marker, s=16, label=f"N = {side}", alpha=0.85)  # fmt: skip
        ax.axhline(part.facts["level"], color="0.5", lw=0.8, ls="--")
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xticks([0, 1, 10, 100, 1000], ["0", "1", "10", "100", "1000"])
        ax.set_xlim(-0.3, 1.3 * max(row["bumps"] for row in tried))
        ax.set_ylim(-0.03, 1.03)
        ax.set_title(kind, fontsize=10)
        ax.set_xlabel("bumps trained on", fontsize=9)
        tidy(ax)
    axes[0].set_ylabel(f"OOD localization, every run of {seeds_note(row['seed'] for row in tried)}", fontsize=SMALL)
    axes[0].legend(frameon=False, fontsize=7)
    return figure


def first_effects(part: PartResult) -> FirstEffects:
    """The slope of each seed over all N. A seed that missed the level at some N has none and is listed in `missing`."""
    found: dict[str, dict[int, float]] = {"C11.bumps": {}, "C11.stripes": {}}
    for kind, stripes in KINDS.items():
        for seed in sorted({row["seed"] for row in part.rows}):
            group = [row for row in part.rows if (row["kind"], row["seed"]) == (kind, seed)]
            slope = _slope(group)
            if slope is not None:
                found["C11.stripes" if stripes else "C11.bumps"][seed] = slope
    return found


def _slope(rows: Sequence[dict[str, Any]]) -> float | None:
    if len(rows) < 2 or not all(row["reached"] for row in rows):
        return None
    return float(np.polyfit(np.log10([row["side"] for row in rows]), np.log10([row["examples"] for row in rows]), 1)[0])


def more_expected(profile: Profile, seeds: Sequence[int]) -> list[RunConfig]:
    """Runs similar to those that searches without stripes will request; with stripes, most end at their first run."""
    return searched(profile.of(SETTINGS), seeds)


def searched(settings: ScalingSettings, seeds: Sequence[int], held_out: HeldOut = middle_quarter) -> list[RunConfig]:
    """About as many runs as searches without stripes take: doubling three times, then bisecting."""
    per_search = round(3 + math.log2(1 / settings.resolution))
    return [
        search_config(settings, side, side, seed, False, held_out)
        for side in settings.sides
        for seed in seeds
        for _ in range(per_search)
    ]


def effects(part: PartResult) -> Effects:
    """One fit per kind of data over all N and seeds. Searches that ended at the budget are censored."""
    found: dict[str, Evidence] = {}
    for kind, stripes in KINDS.items():
        rows = [row for row in part.rows if row["kind"] == kind]
        seeds = sorted({row["seed"] for row in rows})
        complete = [s for s in seeds if sum(row["seed"] == s for row in rows) == len({row["side"] for row in rows})]
        observed = [
            Observation(
                row["side"],
                row["seed"],
                max(row["below"], 0 if not stripes else -1) + (2.0 * row["side"] if stripes else 0.0),
                row["examples"] if row["reached"] else math.inf,
            )
            for row in rows
        ]
        try:
            fit = fit_growth(observed)
        except NotComputable:
            fit = None
        values = {} if fit is None else dict.fromkeys(complete, fit.exponent)
        found["C11.stripes" if stripes else "C11.bumps"] = Evidence(values, fit=fit)
    return found


STUDY = Study(
    key="scaling",
    title="examples needed to place unseen pairs, by N, with and without stripes",
    results=("R9",),
    claims=("C11",),
    version=2,
    seeds={"standard": 40},
    first_seed={"standard": 110},  # the seeds 100–109 left C11 inconclusive
    wanted=wanted,
    rows=rows,
    plot=plot,
    effects=effects,
    first_effects=first_effects,
    more=more,
    more_expected=more_expected,
)
