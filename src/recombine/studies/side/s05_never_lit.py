"""S5, a side result: how much of the failure is due to composition, and how much to pixels that were never lit?

With the centre held out, most pixels of the unseen images are dark in every training image, so even a network that
composes perfectly would have to draw where it never drew before. This study repeats R1, R8 and R9 with equally many
held-out cells that are scattered over the plane, so that every pixel is lit in training. A failure there is a failure
to compose. The additional failure with the centre held out has two causes that this study cannot separate: pixels that
were never lit, and a larger distance to trained pairs.

The questions and statistics are those of docs/statistics-side.md, written down before the runs. Decides no claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.diagnostics.findings import PartResult
from recombine.plotting.style import BLUE, VERMILION
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import CODE_LABELS, CODES, cnn, scattered
from recombine.studies.framework.figure_style import SMALL, seeds_note, tidy
from recombine.studies.framework.inference import mean_test
from recombine.studies.framework.learning import learning
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Runs, Study
from recombine.studies.paper import r08_few_shot as few_shot
from recombine.studies.paper import r09_scaling as scaling

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HOLDOUTS = {"centre": "in the middle", "scattered": "scattered: every pixel lit"}
STYLES = {"centre": (VERMILION, "s"), "scattered": (BLUE, "o")}
DATA = {"bumps": (None, False), "stripes": (0, True), "stripes + bumps": (few_shot.MANY, True)}
KIND = {"bumps": False}  # searched without stripes; with stripes the thresholds are 0 in R9


@dataclass(frozen=True)
class NeverLitSettings:
    """The codes (R1), the values of N (R9), and the number of seeds."""

    codes: tuple[str, ...]
    sides: tuple[int, ...]
    seeds: int


SETTINGS = {
    "smoke": NeverLitSettings(("bump",), (8, 12), 1),
    "quick": NeverLitSettings(("bump", "onehot"), (12,), 1),
    "standard": NeverLitSettings(CODES, (12, 16, 24), 5),
    "paper": NeverLitSettings(CODES, (24, 28, 32), 5),
}


def _codes(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, str, int], RunConfig]:
    """Map (hold-out, code, seed) to runs; those with the centre held out are R1's."""
    settings = profile.of(SETTINGS)
    return {
        (holdout, code, seed): cnn(profile, code, profile.standard_depth, seed, holdout)
        for holdout in HOLDOUTS
        for code in settings.codes
        for seed in seeds[: settings.seeds]
    }


def _data(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, str, int], RunConfig]:
    """Map (hold-out, training data, seed) to runs with the bump code; those with the centre held out are R8's."""
    settings = profile.of(few_shot.SETTINGS)
    cells = few_shot.config(settings, 0, 0).task().holdout.n_ood
    held_out = {"centre": None, "scattered": scattered(settings.side, cells)}
    return {
        (holdout, data, seed): few_shot.config(
            settings, min(bumps, few_shot.many(profile)) if bumps else bumps, seed, stripes=stripes, held_out=words
        )
        for holdout, words in held_out.items()
        for data, (bumps, stripes) in DATA.items()
        for seed in seeds[: profile.of(SETTINGS).seeds]
    }


def _scattered_like_quarter(side: int) -> list[str]:
    return scattered(side, (side // 4) ** 2)


def _searches(runs: Runs, profile: Profile, seeds: Sequence[int]) -> Iterator[tuple[str, scaling.Search]]:
    """(hold-out, search) pairs; those in the middle are R9's if it has that N and seed."""
    settings = profile.of(SETTINGS)
    shapes = replace(profile.of(scaling.SETTINGS), sides=settings.sides)
    for holdout, held_out in (("centre", scaling.middle_quarter), ("scattered", _scattered_like_quarter)):
        for search in scaling.searches(runs, shapes, seeds[: settings.seeds], KIND, held_out):
            yield holdout, search


def wanted(profile: Profile, seeds: Sequence[int]) -> list[RunConfig]:
    """Runs that are known beforehand; the searches request theirs."""
    return [*_codes(profile, seeds).values(), *_data(profile, seeds).values()]


def more(profile: Profile, seeds: Sequence[int], runs: Runs) -> list[RunConfig]:
    """All runs that the searches used or wait for."""
    return [config for _, search in _searches(runs, profile, seeds) for config in search.asked]


def more_expected(profile: Profile, seeds: Sequence[int]) -> list[RunConfig]:
    """Runs similar to those of the searches on the scattered hold-out; the others are R9's."""
    settings = profile.of(SETTINGS)
    shapes = replace(profile.of(scaling.SETTINGS), sides=settings.sides)
    return scaling.searched(shapes, seeds[: settings.seeds], _scattered_like_quarter)


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Scores of every run with the pixel coverage of its hold-out, thresholds, and answers to the questions."""
    found = PartResult(
        "never_lit", {"codes": [], "data": [], "thresholds": [], "questions": []}, facts={"coverage": {}}
    )
    for table, wanted in (("codes", _codes(profile, seeds)), ("data", _data(profile, seeds))):
        for (holdout, what, seed), run in runs.labelled(wanted):
            key = f"{table}/{holdout}"
            if key not in found.facts["coverage"]:
                task = run.task
                found.facts["coverage"][key] = task.holdout.pixel_coverage(task.scene)
            about = {"holdout": holdout, "trained_on": what, "seed": seed, "run": run.id, **learning(run)}
            coverage = {"pixel_coverage": found.facts["coverage"][key], "held_out": run.task.holdout.n_ood}
            found.tables[table].append({**about, **coverage, **run.summary})
    for holdout, search in _searches(runs, profile, seeds):
        if search.found is not None:
            reached = search.found.reached
            found.tables["thresholds"].append(
                {"holdout": holdout, "side": search.side, "seed": search.seed, "reached": reached is not None,
                 "examples": float("nan") if reached is None else float(reached), "most": search.found.most}
            )  # fmt: skip
    found.tables["questions"] = questions(found)
    return found


def questions(part: PartResult) -> list[dict[str, Any]]:
    """For each arm, the share of the failure with the centre held out that vanishes on the scattered hold-out.

    The failure of a run is 1 − OOD localization. The painting share is 1 − failure(scattered) / failure(centre),
    averaged over seeds.
    """
    found = []
    for table in ("codes", "data"):
        rows = part.tables[table]
        for what in dict.fromkeys(row["trained_on"] for row in rows):
            failures = {
                (row["holdout"], row["seed"]): 1 - row["ood_localization"]
                for row in rows
                if row["trained_on"] == what and row["ood_localization"] is not None
            }
            shares = [
                1 - failures["scattered", seed] / failure
                for (holdout, seed), failure in failures.items()
                if holdout == "centre" and failure > 0 and ("scattered", seed) in failures
            ]
            tested = mean_test(shares, 0.5)
            found.append(
                {"arm": {"codes": "R1", "data": "R8"}[table], "trained_on": what, "seeds": len(shares),
                 "painting_share": tested.estimate, "low": tested.low, "high": tested.high,
                 "p_more_than_half": tested.p_above, "p_less_than_half": tested.p_below}
            )  # fmt: skip
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """Plot localization by code and by training data, and thresholds by N, for both hold-outs."""
    from recombine.plotting.style import new_figure

    if not part.rows:
        return {}
    figure = new_figure(11.0, 3.7)
    axes = figure.subplots(1, 3, width_ratios=[1.2, 1.1, 1.0])
    _localization(axes[0], part, "codes", CODE_LABELS)
    _localization(axes[1], part, "data", {name: name for name in DATA})
    _thresholds(axes[2], part)
    for ax, title in zip(axes, ("R1: trained on all other bumps", "R8: bump code, by training data",
                                "R9: bumps needed for 90 %")):  # fmt: skip
        ax.set_title(title, fontsize=9)
        tidy(ax)
    axes[0].set_ylabel("unseen pairs in the correct place", fontsize=SMALL)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False, fontsize=SMALL
    )
    coverage = part.facts["coverage"]
    shares = ", ".join(f"{HOLDOUTS[key.split('/')[1]]} {value:.0%}" for key, value in list(coverage.items())[:2])
    seeds = seeds_note(row["seed"] for row in part.rows)
    figure.supxlabel(
        f"equally many cells held out in the middle and scattered; dots: {seeds}, bars: median\n"
        f"energy of unseen images in pixels that some training image lights: {shares}",
        fontsize=SMALL,
    )
    return {"S05_never_lit": figure}


def _localization(ax: Axes, part: PartResult, table: str, labels: dict[str, str]) -> None:
    rows = part.tables[table]
    shown = [name for name in labels if any(row["trained_on"] == name for row in rows)]
    for shift, (holdout, (colour, marker)) in zip((-0.13, 0.13), STYLES.items()):
        for place, name in enumerate(shown):
            values = [r["ood_localization"] for r in rows if (r["holdout"], r["trained_on"]) == (holdout, name)]
            text = HOLDOUTS[holdout] if place == 0 else None
            ax.plot([place + shift] * len(values), values, marker, color=colour, ms=4, alpha=0.6, label=text)
            if values:
                ax.plot([place + shift], [np.median(values)], "_", color=colour, ms=16, mew=2)
    ax.set_xticks(range(len(shown)), [labels[name].replace(" code", "\ncode").replace(" + ", "\n+ ") for name in shown])
    ax.set_xlim(-0.5, len(shown) - 0.5)
    ax.set_ylim(-0.04, 1.04)


def _thresholds(ax: Axes, part: PartResult) -> None:
    """Plot the median over seeds. A threshold that was not reached is drawn at the budget as an open marker."""
    rows = part.tables["thresholds"]
    sides = sorted({row["side"] for row in rows})
    for holdout, (colour, marker) in STYLES.items():
        medians = []
        for side in sides:
            here = [row for row in rows if (row["holdout"], row["side"]) == (holdout, side)]
            values = [row["examples"] if row["reached"] else row["most"] for row in here]
            medians.append(np.median(values) if values else np.nan)
            for row, value in zip(here, values):
                face = colour if row["reached"] else "none"
                ax.plot([side], [value], marker, color=colour, mfc=face, ms=4, alpha=0.6)
        ax.plot(sides, medians, color=colour, lw=1.2)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(sides, [str(side) for side in sides])
    ax.set_xticks([], minor=True)
    ax.set_xlabel("N (open: not reached by all)", fontsize=SMALL)


STUDY = Study(
    key="never_lit",
    title="hold-outs that leave pixels dark in training, and hold-outs that do not",
    results=("S5",),
    version=1,
    wanted=wanted,
    more=more,
    more_expected=more_expected,
    rows=rows,
    plot=plot,
)
