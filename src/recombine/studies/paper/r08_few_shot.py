"""R8: the outputs for unseen pairs after training on all stripes and m bumps. Decides C9 and C10.

This is forced rendering by data (Liang et al. 2025, Sec. 5). Runs with different
numbers of bumps are trained for the same number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from recombine.core.images import Tone
from recombine.core.statistics import median
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.numerics.conjunction import foreground, sum_of_single_factors
from recombine.diagnostics.request import DiagnosisRequest
from recombine.plotting.style import COLOURS
from recombine.runs.config import RunConfig
from recombine.runs.store import StoredRun
from recombine.studies.framework.baseline import PAPER_RECIPE, REMEDY, centre, square
from recombine.studies.framework.figure_style import (
    BRIGHTNESS,
    SMALL,
    cells_to_show,
    over_seeds,
    seeds_note,
    task_of,
    tidy,
)
from recombine.studies.framework.inference import rank_correlation
from recombine.studies.framework.learning import Rows, evidence, grouped, learning
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import FirstEffects, Runs, Study, record_undiagnosed
from recombine.studies.framework.verdicts import Effects
from recombine.studies.framework.width_check import TABLE, at_width, width_check
from recombine.training.examples.single_factor import single_factor_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 6
MANY = 100  # the number of bumps in C10
REQUEST = DiagnosisRequest(parts=("conjunction",))


@dataclass(frozen=True)
class FewShotSettings:
    """N, the CNN, training lengths in steps, and numbers of bumps, absolute and as shares of all ID bumps.

    Runs without bumps and with the most bumps are trained for every length, all others for the longest.

    `check_width` is a width at which the profile's check seeds are also trained, without bumps and with the most.
    `recipe` replaces the `recommended` recipe of the studies on stripes.
    """

    side: int
    width: int
    lengths: tuple[int, ...]
    bumps: tuple[int, ...]
    shares: tuple[float, ...]
    depth: int = 4
    check_width: int | None = None
    recipe: tuple[str, ...] = ()


BUMPS = (0, 10, 50, 100)
SETTINGS = {
    "smoke": FewShotSettings(
        side=12, width=8, lengths=(10, 20), bumps=(0, 10, 50), shares=(0.5,), depth=2, check_width=9
    ),
    "quick": FewShotSettings(side=28, width=16, lengths=(500, 2000), bumps=BUMPS, shares=(0.05, 0.5)),
    "standard": FewShotSettings(
        side=28, width=16, lengths=(500, 1000, 2000, 4000), bumps=BUMPS, shares=(0.05, 0.5), check_width=64
    ),
    "paper": FewShotSettings(
        side=28,
        width=64,
        lengths=(3125,),
        bumps=BUMPS,
        shares=(0.01, 0.05, 0.1, 0.2, 0.5, 1.0),
        recipe=PAPER_RECIPE,
    ),
}


def config(
    settings: FewShotSettings,
    bumps: int | None,
    seed: int,
    steps: int | None = None,
    *,
    stripes: bool = True,
    held_out: Sequence[str] | None = None,
) -> RunConfig:
    """A run on all stripes and this many bumps (None: all ID bumps), by default with the longest training.

    The centre is held out unless `held_out` contains other overrides.
    """
    held = centre(settings.side) if held_out is None else held_out
    return RunConfig.parse(
        [*REMEDY, *square(settings.side), *held, f"decoder.depth={settings.depth}",
         f"decoder.width={settings.width}", f"training.examples.single_factor={'{}' if stripes else 'null'}",
         *([] if bumps is None else [f"training.examples.cells.count={bumps}"]),
         f"training.steps={steps or settings.lengths[-1]}", *settings.recipe, f"seed={seed}"]
    )  # fmt: skip


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[int, int, float | None, int, int], RunConfig]:
    """Map (width, number of bumps, share of all ID bumps or None, steps, seed) to runs."""
    settings = profile.of(SETTINGS)
    available = config(settings, 0, 0).task().holdout.n_id
    shares = {round(share * available): share for share in settings.shares}
    longest = settings.lengths[-1]
    ends = (0, many(profile))
    asked = {(m, shares.get(m), steps) for m in ends for steps in settings.lengths}
    asked |= {(m, shares.get(m), longest) for m in settings.bumps} | {
        (m, share, longest) for m, share in shares.items()
    }
    ordered = sorted(asked, key=lambda key: (key[2], key[0]), reverse=True)[::-1]
    found = {(settings.width, *key, seed): config(settings, key[0], seed, key[2]) for key in ordered for seed in seeds}
    if settings.check_width is not None:
        wide = replace(settings, width=settings.check_width)
        for seed in seeds[: profile.check_seeds]:
            found |= {(wide.width, m, shares.get(m), longest, seed): config(wide, m, seed) for m in ends}
    return found


def many(profile: Profile) -> int:
    """The number of bumps in C10."""
    return min(MANY, max(profile.of(SETTINGS).bumps))


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """One row per run, and pictures of the first seed."""
    settings = profile.of(SETTINGS)
    found = PartResult("few_shot", {"runs": []}, facts={"config": None, "many": many(profile), "width": settings.width,
                                                            "lengths": list(settings.lengths)})  # fmt: skip
    for (width, bumps, share, steps, seed), run in runs.labelled(wanted(profile, seeds)):
        with record_undiagnosed(found, f"run {run.id} ({bumps} bumps, seed {seed})"):
            about = {"seed": seed, "width": width, "bumps": bumps, "run": run.id, **learning(run)}
            found.tables["runs"].append(
                {**about, **_scores(run, runs.diagnosis(run)), "share": np.nan if share is None else float(share)}
            )
            if (width, steps) == (settings.width, settings.lengths[-1]) and f"outputs/{bumps}" not in found.arrays:
                _keep_pictures(found, bumps, run)
    ends = {(bumps, settings.lengths[-1]) for bumps in (0, many(profile))}
    found.tables[TABLE] = width_check(
        found, _longest_effects, narrow=settings.width, wide=settings.check_width or settings.width,
        keep=lambda row: (row["bumps"], row["steps"]) in ends,
    )  # fmt: skip
    return found


def _scores(run: StoredRun, diagnosis: Diagnosis) -> dict[str, Any]:
    """Scores of both splits, and means and medians of the part `conjunction`."""
    [found] = diagnosis["conjunction"].table("summary")
    return {name: run.summary[name] for name in ("ood_mse", "id_localization", "ood_localization")} | found


def _keep_pictures(found: PartResult, bumps: int, run: StoredRun) -> None:
    """Store truth, sum of the stripes and output for cells spread evenly over the hold-out."""
    from recombine.scoring.outputs import render

    task = run.task
    cells = cells_to_show(task.holdout, SHOWN)
    values = task.space.values(cells)
    outputs = foreground(task.scene, torch.from_numpy(render(run.model, task, cells)[1]))
    found.facts.update(config=run.config.to_dict(), seed=run.config.seed)
    found.arrays.update({
        "places": values.numpy(),
        "truth": foreground(task.scene, task.scene(values)).numpy(),
        "added": sum_of_single_factors(task.scene, values).numpy(),
        f"outputs/{bumps}": outputs.numpy(),
    })  # fmt: skip


def plot(part: PartResult) -> dict[str, Figure]:
    """Draw the data set, samples by number and by share of bumps, and scores by number of bumps."""
    if part.facts["config"] is None:
        return {}
    part = at_width(part, part.facts["width"])
    figures = {"R08_data_set": _data_set(part), "R08_scores": _curves(part), "R08_training_time": _over_time(part)}
    shares = {row["bumps"]: row["share"] for row in part.rows}
    kept = [int(name.split("/")[1]) for name in part.arrays if name.startswith("outputs/")]
    groups = {
        "R08_samples_bumps": {m: f"{m} bumps" for m in kept if np.isnan(shares[m])},
        "R08_samples_shares": {m: f"{100 * shares[m]:g} % ({m} bumps)" for m in kept if not np.isnan(shares[m])},
    }
    return figures | {name: _samples(part, labels) for name, labels in groups.items() if labels}


def _samples(part: PartResult, labels: Mapping[int, str]) -> Figure:
    """Draw the truth, the sum of the stripes, and the outputs for some numbers of bumps, with the scores over seeds."""
    from recombine.plotting.images import show_output
    from recombine.plotting.style import new_figure

    lines = {"truth": part.arrays["truth"], "sum of stripes": part.arrays["added"]}
    for m, label in labels.items():
        group = [row for row in _longest(part) if row["bumps"] == m]
        notes = [
            f"{name} {_spread([row[column] for row in group])}"
            for name, column in (("found", "ood_localization"), ("additive", "additive"), ("bump", "composed"))
        ]
        lines["\n".join([label, *notes])] = part.arrays[f"outputs/{m}"]
    places = part.arrays["places"]
    brightest = max(1.0, *(float(images.max()) for images in lines.values()))  # crossing stripes add up to 2
    figure = new_figure(1.15 * len(places) + 2.4, 1.25 * len(lines) + 0.7)
    axes = figure.subplots(len(lines), len(places), squeeze=False)
    for line, (label, images) in enumerate(lines.items()):
        for column, place in enumerate(places):
            text = ", ".join(f"{value:g}" for value in place) if line == 0 else ""
            show_output(axes[line, column], images[column], text, held_out=True, tone=Tone(high=brightest))
        axes[line, 0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=SMALL)
    figure.supxlabel(
        f"pairs never seen in training, outputs of seed {part.facts['seed']}; scores: median [minimum, maximum] of "
        f"{seeds_note(row['seed'] for row in part.rows)}\none brightness scale from 0 to the brightest pixel "
        f"({brightest:.2f}), shown as its square root",
        fontsize=SMALL,
    )
    return figure


def _spread(numbers: Sequence[float]) -> str:
    return f"{median(numbers):.2f} [{min(numbers):.2f}, {max(numbers):.2f}]" if numbers else "–"


def _data_set(part: PartResult) -> Figure:
    """Draw some of the stripes, some bumps, and the allowed positions of bumps."""
    from recombine.plotting.grids import hold_out, outline
    from recombine.plotting.images import show_output
    from recombine.plotting.style import new_figure

    task = task_of(part.facts["config"])
    values, present = single_factor_values(task.space)
    some = torch.linspace(0, len(values) - 1, 6).round().long()
    images = foreground(task.scene, task.scene(values[some], present[some])).numpy()
    bumps = task.space.values(task.holdout.id_cells[torch.linspace(0, task.holdout.n_id - 1, 3).long()])
    bump_images = foreground(task.scene, task.scene(bumps)).numpy()
    figure = new_figure(11.5, 2.0)
    axes = figure.subplots(1, 10)
    for ax, image, here, value in zip(axes, images, present[some], values[some]):
        name = "x" if bool(here[0]) else "y"
        show_output(ax, image, f"{name} = {float(value.sum()):g}")
    for ax, image, value in zip(axes[6:], bump_images, bumps):
        show_output(ax, image, f"{value[0]:g}, {value[1]:g}")
    hold_out(task.holdout, axes[9])
    outline(task.holdout, axes[9])
    axes[9].set_title("hold-out", fontsize=SMALL)
    axes[9].set_box_aspect(1)
    axes[9].tick_params(labelsize=6)
    figure.supxlabel(
        f"trained on all {len(values)} stripes (x alone, y alone) and some of the {task.holdout.n_id} bumps outside "
        f"the hold-out · {BRIGHTNESS}",
        fontsize=SMALL,
    )
    return figure


def _curves(part: PartResult) -> Figure:
    from recombine.plotting.style import new_figure

    figure = new_figure(4.6, 3.3)
    ax = figure.subplots()
    ordered = sorted(_longest(part), key=lambda row: row["bumps"])
    lines = {"ood_localization": "correct place", "composed": "cosine with the bump",
             "additive": "cosine with the sum of stripes"}  # fmt: skip
    for (column, label), colour, marker in zip(lines.items(), COLOURS, "os^"):
        over_seeds(ax, ordered, "bumps", column, colour=colour, marker=marker, label=label)
    ax.axhline(float(np.mean([row["baseline"] for row in ordered])), color="0.5", lw=0.9, ls="--",
               label="cosine of the bump with the sum of stripes")  # fmt: skip
    ax.set_xscale("symlog", linthresh=10)
    ticks = sorted({row["bumps"] for row in ordered})
    ax.set_xticks(ticks, [str(m) for m in ticks], fontsize=7)
    ax.set_xticks([], minor=True)
    ax.set_xlim(-1, 1.15 * max(ticks))
    ax.set_ylim(0, 1.03)
    tidy(ax)
    ax.set_xlabel("number of bumps in addition to all stripes", fontsize=9)
    ax.set_ylabel(f"unseen pairs, mean and range of {seeds_note(r['seed'] for r in ordered)}", fontsize=SMALL)
    ax.legend(frameon=False, fontsize=7, loc="lower right")
    return figure


def _longest(part: PartResult) -> Rows:
    """The rows of the longest training."""
    return [row for row in part.rows if row["steps"] == part.facts["lengths"][-1]]


def _over_time(part: PartResult) -> Figure:
    """Plot localization and both cosines against training length: a thin line per seed and the median over seeds.

    There is a row of panels per number of bumps, because seeds that end in different states would overlap in one panel.
    """
    from recombine.plotting.style import new_figure

    counts = sorted({row["bumps"] for row in part.rows if row["steps"] == part.facts["lengths"][0]})
    lines = {"ood_localization": "in the correct place", "composed_median": "cosine with the bump",
             "additive_median": "cosine with the sum of stripes"}  # fmt: skip
    figure = new_figure(2.3 * len(lines) + 0.6, 2.1 * len(counts) + 0.5)
    axes = figure.subplots(len(counts), len(lines), sharex=True, sharey=True, squeeze=False)
    for panels, bumps in zip(axes, counts):
        rows = sorted((row for row in part.rows if row["bumps"] == bumps), key=lambda row: row["steps"])
        ticks = sorted({row["steps"] for row in rows})
        for ax, column, colour in zip(panels, lines, COLOURS):
            for seed in sorted({row["seed"] for row in rows}):
                own = [row for row in rows if row["seed"] == seed]
                ax.plot([r["steps"] for r in own], [r[column] for r in own], color=colour, lw=0.7, alpha=0.45)
            medians = [median([row[column] for row in rows if row["steps"] == steps]) for steps in ticks]
            ax.plot(ticks, medians, color=colour, marker="o", ms=4, lw=1.8)
            ax.set_xscale("log")
            ax.set_xticks(ticks, [str(steps) for steps in ticks], fontsize=7)
            ax.set_xticks([], minor=True)
            ax.set_ylim(-0.03, 1.03)
            tidy(ax)
        panels[0].set_ylabel(f"{bumps} bumps", fontsize=9)
    for label, top, bottom in zip(lines.values(), axes[0], axes[-1]):
        top.set_title(label, fontsize=9)
        bottom.set_xlabel("steps", fontsize=9)
    figure.supylabel(f"unseen pairs, {seeds_note(r['seed'] for r in part.rows)} and their median", fontsize=SMALL)
    return figure


def effects(part: PartResult) -> Effects:
    """Curves over the training length (C9) and over the number of bumps (C10)."""
    own = at_width(part, part.facts["width"])
    return _evidence(own, {**_at_the_end(own), **_curves_of(own)})


def _longest_effects(part: PartResult) -> Effects:
    """The parts that need only the longest training, without bumps and with the most."""
    return _evidence(part, _at_the_end(part))


Numbers = dict[str, Callable[[Rows], float]]


def _of(rows: Rows, bumps: int, steps: int) -> dict[str, Any]:
    return next(row for row in rows if (row["bumps"], row["steps"]) == (bumps, steps))


def _nearer_sum(row: dict[str, Any]) -> float:
    return row["additive_median"] - row["composed_median"]


def _gain(rows: Rows, many: int, steps: int) -> float:
    return _of(rows, many, steps)["composed_median"] - _of(rows, 0, steps)["composed_median"]


def _at_the_end(part: PartResult) -> Numbers:
    longest, many = part.facts["lengths"][-1], part.facts["many"]
    return {
        "C9.additive": lambda rows: _nearer_sum(_of(rows, 0, longest)),
        "C9.place": lambda rows: _of(rows, 0, longest)["ood_localization"],
        "C10.bump": lambda rows: _of(rows, many, longest)["composed_median"],
        "C10.gain": lambda rows: _gain(rows, many, longest),
    }


def _curves_of(part: PartResult) -> Numbers:
    shortest, longest, many = part.facts["lengths"][0], part.facts["lengths"][-1], part.facts["many"]

    def over_time(rows: Rows) -> float:
        ordered = sorted((row for row in rows if row["bumps"] == 0), key=lambda row: row["steps"])
        return rank_correlation([row["steps"] for row in ordered], [_nearer_sum(row) for row in ordered])

    def over_bumps(rows: Rows) -> float:
        ordered = sorted((r for r in rows if r["steps"] == longest and np.isnan(r["share"])), key=lambda r: r["bumps"])
        return rank_correlation([row["bumps"] for row in ordered], [row["composed_median"] for row in ordered])

    return {
        "C9.rises": over_time,
        "C9.early": lambda rows: _nearer_sum(_of(rows, 0, shortest)),
        "C10.rises": over_bumps,
        "C10.early_gain": lambda rows: _gain(rows, many, shortest),
    }


def _evidence(part: PartResult, numbers: Numbers) -> Effects:
    """Evidence from seeds that have all their runs."""
    longest = part.facts["lengths"][-1]
    runs_per_seed = max((len(rows) for rows in grouped(part.rows).values()), default=0)
    groups = grouped(part.rows, lambda rows: len(rows) == runs_per_seed)
    return {name: evidence(groups, number, runs=_longest_of(longest)) for name, number in numbers.items()}


def _longest_of(steps: int) -> Callable[[Rows], Rows]:
    """Only the longest runs must have learnt; shorter ones are intermediate stages."""
    return lambda rows: [row for row in rows if row["steps"] == steps]


def first_effects(part: PartResult) -> FirstEffects:
    """Effects without bumps and with many of them."""
    part = at_width(part, part.facts["width"])
    found: dict[str, dict[int, float]] = {}
    of = {(row["bumps"], row["seed"]): row for row in _longest(part)}
    many = part.facts["many"]
    for seed in sorted({row["seed"] for row in _longest(part)}):
        if (0, seed) in of:
            none = of[0, seed]
            found.setdefault("C9.additive", {})[seed] = none["additive"] - none["composed"]
            found.setdefault("C9.place", {})[seed] = none["ood_localization"]
        if (many, seed) in of:
            found.setdefault("C10.bump", {})[seed] = of[many, seed]["composed"]
            if (0, seed) in of:
                found.setdefault("C10.gain", {})[seed] = of[many, seed]["composed"] - of[0, seed]["composed"]
    return found


STUDY = Study(
    key="few_shot",
    title="all stripes and few bumps: the additive conjunction and the bump",
    results=("R8",),
    claims=("C9", "C10"),
    version=3,
    seeds={"standard": 10},
    wanted=wanted,
    request=REQUEST,
    rows=rows,
    plot=plot,
    effects=effects,
    first_effects=first_effects,
)
