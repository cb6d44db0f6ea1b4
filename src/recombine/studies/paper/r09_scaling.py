"""R9: how many examples it takes to place unseen pairs, by N, with and without stripes. Decides C11.

A search per N, seed and kind of data (`r09_threshold.bracket`). All searches go on side by side: each is
replayed over the finished runs, and the runs where it gets stuck are those to train next.

Held out is the middle quarter of each side, a whole number of values at every N. The [6, 22] of the other studies would
not do: with it no number of bumps alone places 90 % of the unseen pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.diagnostics.findings import PartResult
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import PAPER_RECIPE
from recombine.studies.framework.figure_style import SMALL, seeds_note, shades, tidy
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Effects, Runs, Study
from recombine.studies.paper import r09_threshold as threshold
from recombine.studies.paper.r09_threshold import Bracket, ThresholdRow, bracket

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {"bumps": False, "stripes + bumps": True}
HOLDOUT = ("holdout.kind=side", "holdout.fraction=0.25")


@dataclass(frozen=True)
class Shapes:
    """The values of N, the CNN, the steps of every run, and how finely thresholds are searched.

    `recipe` replaces the `recommended` one of the studies on stripes.
    """

    sides: tuple[int, ...]
    width: int
    depth: int
    steps: int
    resolution: float
    recipe: tuple[str, ...] = ()


SIZES = {
    "smoke": Shapes(sides=(8, 12), width=4, depth=2, steps=5, resolution=0.5),
    "quick": Shapes(sides=(16, 20, 24, 28), width=16, depth=4, steps=1000, resolution=0.25),
    "standard": Shapes(sides=(16, 20, 24, 28, 32), width=32, depth=4, steps=2000, resolution=0.1),
    "paper": Shapes(sides=(24, 28, 32, 36, 40), width=128, depth=8, steps=3125, resolution=0.1, recipe=PAPER_RECIPE),
}


class _Unknown(Exception):
    """A search needs a run that is not finished."""


@dataclass(frozen=True)
class _Search:
    """One search, as far as it came.

    Attributes:
        asked: The runs it looked at, the one it waits for included.
        found: Its result; None if it waits for a run, or if that run failed.
    """

    kind: str
    side: int
    seed: int
    asked: list[RunConfig]
    found: Bracket | None


def _searches(runs: Runs, profile: Profile, seeds: Sequence[int]) -> Iterator[_Search]:
    sizes = profile.of(SIZES)
    for kind, stripes in KINDS.items():
        for side in sizes.sides:
            available = _config(sizes, side, 1, 0, stripes).task().holdout.n_id
            for seed in seeds:
                asked: list[RunConfig] = []

                def localization(
                    bumps: int, side: int = side, seed: int = seed, stripes: bool = stripes, asked: list = asked
                ) -> float:
                    asked.append(_config(sizes, side, bumps, seed, stripes))
                    run = runs.get(asked[-1])
                    if run is None:
                        raise _Unknown
                    return run.summary["ood_localization"] or 0.0

                try:
                    found = bracket(localization, available, least=0 if stripes else 1, start=side,
                                    resolution=sizes.resolution)  # fmt: skip
                except _Unknown:
                    found = None
                yield _Search(kind, side, seed, asked, found)


def _config(sizes: Shapes, side: int, bumps: int, seed: int, stripes: bool) -> RunConfig:
    setting = [f"decoder.depth={sizes.depth}", f"decoder.width={sizes.width}", *sizes.recipe]
    return threshold.config(side, bumps, seed, stripes=stripes, steps=sizes.steps, setting=setting, holdout=HOLDOUT)


def first(profile: Profile, seeds: Sequence[int]) -> list[RunConfig]:
    """Where the searches start."""
    sizes = profile.of(SIZES)
    return [
        _config(sizes, side, 0 if stripes else 1, seed, stripes)
        for stripes in KINDS.values()
        for side in sizes.sides
        for seed in seeds
    ]


def more(profile: Profile, seeds: Sequence[int], runs: Runs) -> list[RunConfig]:
    """All runs that the searches looked at or wait for."""
    return [config for search in _searches(runs, profile, seeds) for config in search.asked]


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """A row per search, and one per run it looked at."""
    found = PartResult("scaling", {"thresholds": [], "tried": []}, facts={"level": threshold.LEVEL})
    for search in _searches(runs, profile, seeds):
        about = {"kind": search.kind, "side": search.side, "seed": search.seed}
        if search.found is None or search.found.reached is None:
            why = "a run failed" if search.found is None else f"{found.facts['level']:g} {search.found}"
            listed = found.missing.get(search.kind, "")
            found.missing[search.kind] = f"{listed}{', ' if listed else ''}N = {search.side}, seed {search.seed}: {why}"
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
    """Thresholds over N with slopes, and localization over the number of bumps."""
    if not part.rows:
        return {}
    note = (
        "Slopes in the legend: one line through the means over seeds of log examples,\n"
        "at the N where all seeds got there; interval by resampling seeds.\n"
        "C11 instead fits a line per seed over all N; interval by Student's t over seeds."
    )
    return {"R09_thresholds": threshold.plot(_curves(part), "examples", note), "R09_localization": _localization(part)}


def _curves(part: PartResult) -> dict[str, list[ThresholdRow]]:
    """Rows in numbers of examples: bumps, and 2N stripes where there are any."""
    curves: dict[str, list[ThresholdRow]] = {}
    for row in part.rows:
        stripes = 2 * row["side"] if KINDS[row["kind"]] else 0
        reached = row["bumps"] + stripes if row["reached"] else None
        name = "2N stripes + bumps" if stripes else "bumps only"
        curves.setdefault(name, []).append(
            ThresholdRow(row["side"], row["seed"], Bracket(row["below"] + stripes, reached, row["most"] + stripes, {}))
        )
    return curves


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


def effects(part: PartResult) -> Effects:
    """The slope of each seed over all N; a seed that missed the level at some N has none, and `missing` says so."""
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


def more_expected(profile: Profile, seeds: Sequence[int]) -> int:
    """Doubling and halving once each, roughly."""
    sizes = profile.of(SIZES)
    per_search = math.log2(max(sizes.sides)) / 2 + math.log2(1 / sizes.resolution)
    return round(len(KINDS) * len(sizes.sides) * len(seeds) * per_search)


STUDY = Study(
    key="scaling",
    title="examples needed to place unseen pairs, by N, with and without stripes",
    results=("R9",),
    claims=("C11",),
    version=1,
    configs=first,
    rows=rows,
    plot=plot,
    effects=effects,
    more=more,
    more_expected=more_expected,
)
