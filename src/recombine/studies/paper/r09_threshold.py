"""How many bumps it takes: the fewest with OOD localization ≥ 0.9, and how that number grows with N.

    study = threshold(Store("runs"), sides=(16, 20, 24, 28), seeds=range(4), stripes=True)
    study.rows                       # a row per N and seed, "not reached by m" where that is so
    slope(study.rows)                # of log threshold over log N, with its interval
    plot({"stripes + bumps": study.rows}).savefig("threshold.png")

Liang et al. 2025, Sec. 5 reports growth as N³ for bumps alone and as N with stripes. Every run goes through the store:
a search that was stopped goes on where it was, and one with more seeds or sides trains only what is new.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from recombine.core.errors import InputError
from recombine.core.statistics import median
from recombine.plotting.style import BLUE, GREEN, MARKERS, PURPLE, VERMILION
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.studies.framework.baseline import REMEDY, REMEDY_STEPS, centre, square

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVEL = 0.9
RESOLUTION = 0.1
RESAMPLES = 1000
COLOURS = (BLUE, VERMILION, GREEN, PURPLE)


@dataclass(frozen=True)
class Bracket:
    """Where a threshold lies: above `below` and at or below `reached`.

    Attributes:
        below: The most bumps tried that did not suffice; −1 if even none sufficed.
        reached: The fewest bumps tried that did; None if not even `most` did.
        most: The budget.
        tried: Number of bumps → OOD localization.
    """

    below: int
    reached: int | None
    most: int
    tried: dict[int, float]

    def __str__(self) -> str:
        if self.reached is None:
            return f"not reached by {self.most}"
        return f"{self.reached} (more than {self.below})" if self.below >= 0 else str(self.reached)


@dataclass(frozen=True)
class ThresholdRow:
    """The threshold of one seed at one N."""

    side: int
    seed: int
    bracket: Bracket

    @property
    def bumps(self) -> int | None:
        """The fewest bumps found to suffice; None if the level was not reached within the budget."""
        return self.bracket.reached


@dataclass(frozen=True)
class Threshold:
    """What a search gives.

    Attributes:
        rows: A row per N and seed.
        level: The OOD localization asked for.
        stripes: Whether all stripes were trained on beside the bumps.
        runs: How many runs the search looked at.
    """

    rows: list[ThresholdRow]
    level: float
    stripes: bool
    runs: int = field(default=0)


def bracket(
    localization: Callable[[int], float],
    most: int,
    *,
    least: int = 0,
    start: int = 8,
    level: float = LEVEL,
    resolution: float = RESOLUTION,
) -> Bracket:
    """Search for the fewest bumps with localization ≥ level: double until it is reached, then halve the interval.

    Localization is taken to grow with the number of bumps; where it does not, the answer is one of its crossings.

    Args:
        localization: Number of bumps → OOD localization; called once per number.
        most: No more bumps than this are tried.
        least: The fewest that are tried: 0 with stripes, 1 without.
        start: Where doubling starts.
        level: What must be reached.
        resolution: Stop once the interval is narrower than this share of its upper end (or a single bump).
    """
    if not 0 <= least <= most:
        raise InputError(f"The bumps of a search lie between least and most. Got least={least}, most={most}.")
    if not 0 < level <= 1:
        raise InputError(f"The level is a localization in (0, 1]. Got {level}.")
    if resolution < 0 or start < 1:
        raise InputError(f"resolution must be ≥ 0 and start ≥ 1. Got {resolution} and {start}.")
    tried: dict[int, float] = {}

    def reaches(bumps: int) -> bool:
        tried[bumps] = localization(bumps)
        return tried[bumps] >= level

    if reaches(least):
        return Bracket(-1, least, most, tried)
    below, above = least, min(max(start, least + 1), most)
    while above > below and not reaches(above):
        below, above = above, min(2 * above, most)
    if above == below:
        return Bracket(below, None, most, tried)
    while above - below > max(1, resolution * above):
        middle = (below + above) // 2
        if reaches(middle):
            above = middle
        else:
            below = middle
    return Bracket(below, above, most, tried)


def config(
    side: int,
    bumps: int,
    seed: int,
    *,
    stripes: bool = True,
    steps: int = REMEDY_STEPS,
    setting: Sequence[str] = (),
    holdout: Sequence[str] | None = None,
) -> RunConfig:
    """One run of the search: an N×N plane whose middle 6/28 … 22/28 is held out, unless another hold-out is given."""
    common = [word for word in REMEDY if not word.startswith("holdout.")]
    held = centre(side) if holdout is None else holdout
    about = [f"training.stripes={str(stripes).lower()}", f"training.steps={steps}", f"training.bumps={bumps}"]
    return RunConfig.parse([*common, *square(side), *held, *about, *setting, f"seed={seed}"])


def threshold(
    store: Store,
    sides: Iterable[int],
    seeds: Iterable[int],
    *,
    stripes: bool = True,
    most: int | None = None,
    level: float = LEVEL,
    resolution: float = RESOLUTION,
    steps: int = REMEDY_STEPS,
    setting: Sequence[str] = (),
    device: str = "auto",
    progress: bool | None = None,
) -> Threshold:
    """The threshold of every N and seed; finished runs are taken from the store.

    Args:
        store: Where the runs are and go.
        sides: The values of N.
        seeds: One search each.
        stripes: Train on all stripes beside the bumps.
        most: The budget of bumps; all ID cells unless given.
        level, resolution: See `bracket`.
        steps: Length of every run, the same for every number of bumps.
        setting: Changes to the setting, "group.key=value".
        device, progress: See `Store.train`.
    """
    sides, seeds = list(sides), list(seeds)
    if not sides or not seeds:
        raise InputError(f"A search needs at least one N and one seed. Got sides={sides}, seeds={seeds}.")
    rows, looked = [], 0
    for side in sides:
        available = config(side, 1, 0, stripes=stripes, steps=steps, setting=setting).task().holdout.n_id
        if most is not None and most > available:
            raise InputError(f"most={most} asks for more bumps than the ID cells of N = {side} ({available}).")
        for seed in seeds:

            def localization(bumps: int, side: int = side, seed: int = seed) -> float:
                wanted = config(side, bumps, seed, stripes=stripes, steps=steps, setting=setting)
                found = store.train([wanted], device=device, progress=progress)[0].summary["ood_localization"]
                assert found is not None
                return found

            found = bracket(
                localization,
                available if most is None else most,
                least=0 if stripes else 1,
                start=side,
                level=level,
                resolution=resolution,
            )
            looked += len(found.tried)
            rows.append(ThresholdRow(side, seed, found))
    return Threshold(rows, level, stripes, looked)


@dataclass(frozen=True)
class SidePoint:
    """The threshold at one N over seeds.

    Attributes:
        median: Over seeds; None if half of them or more did not reach the level.
        low, high: 95 % bootstrap interval of the median; high is None where it is beyond the budget.
        missed: Seeds that did not reach the level.
        seeds: All seeds.
        most: The budget.
    """

    side: int
    median: float | None
    low: float | None
    high: float | None
    missed: int
    seeds: int
    most: int

    def __str__(self) -> str:
        if self.median is None:
            return f"N = {self.side}: not reached by {self.most} ({self.missed} of {self.seeds} seeds)"
        if self.seeds == 1:
            return f"N = {self.side}: {self.median:g}, one seed: no interval"
        high = f"not reached by {self.most}" if self.high is None else f"{self.high:g}"
        return f"N = {self.side}: {self.median:g} [{self.low:g}, {high}], {self.seeds} seeds"


def points(rows: Sequence[ThresholdRow], *, resamples: int = RESAMPLES, seed: int = 0) -> list[SidePoint]:
    """The median threshold of every N with its interval over seeds. A seed that missed counts as beyond the budget."""
    random = np.random.default_rng(seed)
    found = []
    for side, group in _by_side(rows).items():
        values = [math.inf if row.bumps is None else float(row.bumps) for row in group]
        drawn = random.integers(len(values), size=(resamples, len(values)))
        medians = np.sort([median([values[i] for i in line]) for line in drawn])
        low, high = (medians[round(q * (resamples - 1))] for q in (0.025, 0.975))
        found.append(
            SidePoint(
                side,
                median=_finite(median(values)),
                low=_finite(low),
                high=_finite(high),
                missed=sum(row.bumps is None for row in group),
                seeds=len(group),
                most=min(row.bracket.most for row in group),
            )
        )
    return found


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _by_side(rows: Sequence[ThresholdRow]) -> Mapping[int, list[ThresholdRow]]:
    groups: dict[int, list[ThresholdRow]] = {}
    for row in rows:
        groups.setdefault(row.side, []).append(row)
    return dict(sorted(groups.items()))


@dataclass(frozen=True)
class Slope:
    """Exponent of threshold ∝ N^slope, its 95 % interval, the sides it was fitted to and the fewest seeds of a side."""

    value: float
    low: float
    high: float
    sides: tuple[int, ...]
    seeds: int

    def __str__(self) -> str:
        interval = f"[{self.low:.2f}, {self.high:.2f}]" if self.seeds > 1 else "(one seed: no interval)"
        return f"{self.value:.2f} {interval} over N = {', '.join(map(str, self.sides))}"


def slope(rows: Sequence[ThresholdRow], *, resamples: int = RESAMPLES, seed: int = 0) -> Slope | None:
    """Least-squares slope of log threshold over log N, resampling seeds within each N for the interval.

    Only sides all of whose seeds reached the level above 0 bumps are used: leaving out single seeds that did not would
    bend the line. None if fewer than two such sides remain.
    """
    groups = {
        side: np.log([row.bumps or math.nan for row in group])
        for side, group in _by_side(rows).items()
        if all(row.bumps for row in group)
    }
    if len(groups) < 2:
        return None
    logs = np.log(list(groups))
    random = np.random.default_rng(seed)
    fitted = [
        np.polyfit(logs, [random.choice(values, len(values)).mean() for values in groups.values()], 1)[0]
        for _ in range(resamples)
    ]
    middle = np.polyfit(logs, [values.mean() for values in groups.values()], 1)[0]
    low, high = np.quantile(fitted, [0.025, 0.975])
    return Slope(float(middle), float(low), float(high), tuple(groups), min(map(len, groups.values())))


def plot(curves: Mapping[str, Sequence[ThresholdRow]], counted: str = "bumps", note: str = "") -> Figure:
    """Threshold against N on logarithmic axes, with N³ and N through the first point of each curve.

    What was not reached is drawn as an arrow, at the budget or from the median to it; thresholds of 0 are drawn at 1
    and named so.

    Args:
        curves: Rows by name.
        counted: What the numbers of the rows count.
        note: What to say below the legend.
    """
    from recombine.plotting.style import new_figure

    if not any(curves.values()):
        raise InputError("There is nothing to draw: no rows.")
    figure = new_figure(5.0, 5.2 if note else 4.6)
    ax = figure.subplots()
    for index, (name, rows) in enumerate(curves.items()):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        found = points(rows)
        fitted = slope(rows)
        seeds = max(point.seeds for point in found)
        label = f"{name} ({seeds} {'seed' if seeds == 1 else 'seeds'}" + (f", slope {fitted})" if fitted else ")")
        reached = [point for point in found if point.median is not None]
        middles = np.array([max(point.median or 0, 1) for point in reached])
        lows = np.array([max(point.low or 0, 1) for point in reached])
        highs = np.array([max(point.high if point.high is not None else point.most, 1) for point in reached])
        beyond = np.array([point.high is None for point in reached])
        sides = np.array([point.side for point in reached])
        if reached:
            ends = np.abs(np.stack([middles - lows, np.where(beyond, 0, highs - middles)]))
            ax.errorbar(sides, middles, yerr=ends, color=colour, marker=marker, capsize=3, label=label)
        if beyond.any():
            up = np.stack([0 * highs, highs - middles])[:, beyond]
            ax.errorbar(sides[beyond], middles[beyond], yerr=up, lolims=True, fmt="none", color=colour, capsize=4,
                        label=f"{name}: interval open, some seeds did not reach it by the arrow's tip")  # fmt: skip
        if reached:
            for power, style in ((3, ":"), (1, "--")):
                ax.plot(sides, middles[0] * (sides / sides[0]) ** power, color="0.6", linestyle=style, linewidth=0.9)
        missed = [point for point in found if point.median is None]
        if missed:
            ax.scatter(
                [point.side for point in missed],
                [point.most for point in missed],
                marker=r"$\uparrow$",
                s=90,
                color=colour,
                label=f"{name}: not reached by this many"
                if reached
                else f"{name}: not reached by this many, {seeds} seeds",
            )
        if any(point.median == 0 for point in reached):
            ax.annotate("0 bumps, drawn at 1", (sides[middles == 1][0], 1), fontsize=7, color=colour)
    ax.plot([], [], color="0.6", linestyle=":", label="∝ N³")
    ax.plot([], [], color="0.6", linestyle="--", label="∝ N")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ticks = sorted({row.side for rows in curves.values() for row in rows})
    ax.set_xticks(ticks, [str(side) for side in ticks])
    ax.set_xticks([], minor=True)
    ax.set_xlabel("N")
    ax.set_ylabel(f"{counted} needed (median, 95 % interval)", fontsize=9)
    figure.legend(loc="outside lower center", fontsize=7, title=note or None, title_fontsize=7)
    return figure
