"""R8: trained on all stripes and few bumps, what comes out for unseen pairs? Decides C9 and C10.

The runs and their rows are those of `recombine.studies.paper.r08_stripes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.numerics.conjunction import foreground
from recombine.plotting.style import COLOURS
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import PAPER_RECIPE, centre, square
from recombine.studies.framework.figure_style import BRIGHTNESS, SMALL, over_seeds, seeds_note, task_of, tidy
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Effects, Runs, Study, record_undiagnosed
from recombine.studies.paper import r08_stripes as stripes
from recombine.training.data import stripes as all_stripes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 6
MANY = 100  # the number of bumps that C10 looks at


@dataclass(frozen=True)
class Shapes:
    """N, the CNN, the steps of every run, and how many bumps, in numbers and as shares of all ID bumps.

    `recipe` replaces the `recommended` one of the studies on stripes.
    """

    side: int
    width: int
    steps: int
    bumps: tuple[int, ...]
    shares: tuple[float, ...]
    depth: int = 4
    recipe: tuple[str, ...] = ()


SIZES = {
    "smoke": Shapes(side=12, width=8, steps=20, bumps=(0, 10, 50), shares=(0.5,), depth=2),
    "quick": Shapes(side=28, width=32, steps=1000, bumps=(0, 10, 50, 100), shares=(0.05, 0.5)),
    "standard": Shapes(side=28, width=64, steps=2000, bumps=(0, 10, 50, 100), shares=(0.01, 0.05, 0.2, 0.5, 1.0)),
    "paper": Shapes(
        side=28,
        width=64,
        steps=3125,
        bumps=(0, 10, 50, 100),
        shares=(0.01, 0.05, 0.1, 0.2, 0.5, 1.0),
        recipe=PAPER_RECIPE,
    ),
}


def setting(sizes: Shapes) -> list[str]:
    """What all runs on stripes share."""
    decoder = [f"decoder.depth={sizes.depth}", f"decoder.width={sizes.width}"]
    return [*square(sizes.side), *centre(sizes.side), *decoder, *sizes.recipe]


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[int, float | None, int], RunConfig]:
    """(number of bumps, share of all ID bumps or None, seed) → run; a share that is a whole number is that run."""
    sizes = profile.of(SIZES)
    [probe] = stripes.configs([0], [0], sizes.steps, setting(sizes))[0]
    available = probe.task().holdout.n_id
    shares = {round(share * available): share for share in sizes.shares}
    counts = sorted({*sizes.bumps, *shares})
    made = stripes.configs(counts, seeds, sizes.steps, setting(sizes))
    return {(m, shares.get(m), config.seed): config for m, group in made.items() for config in group}


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """A row per run; pictures of the first seed."""
    sizes = profile.of(SIZES)
    found = PartResult("few_shot", {"runs": []}, facts={"config": None, "many": min(MANY, max(sizes.bumps))})
    first: dict[int, Any] = {}
    for (bumps, share, seed), run in runs.labelled(wanted(profile, seeds)):
        with record_undiagnosed(found, f"run {run.id} ({bumps} bumps, seed {seed})"):
            row = asdict(stripes.row(bumps, run))
            found.tables["runs"].append({**row, "share": np.nan if share is None else float(share)})
            first.setdefault(bumps, run)
    if first:
        pictures = stripes.pictures(first, SHOWN)
        found.facts["config"] = next(iter(first.values())).config.to_dict()
        found.facts["seed"] = pictures.seed
        found.arrays.update({"places": pictures.places, "truth": pictures.truth, "added": pictures.added})
        found.arrays.update({f"outputs/{m}": images for m, images in pictures.outputs.items()})
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """The data set, samples for numbers of bumps and for shares, scores by number of bumps."""
    if part.facts["config"] is None:
        return {}
    figures = {"R08_data_set": _data_set(part), "R08_scores": _scores(part)}
    shares = {row["bumps"]: row["share"] for row in part.rows}
    outputs = {int(name.split("/")[1]): a for name, a in part.arrays.items() if name.startswith("outputs/")}
    groups = {
        "R08_samples_bumps": [m for m in outputs if np.isnan(shares[m])],
        "R08_samples_shares": [m for m in outputs if not np.isnan(shares[m])],
    }
    for name, counts in groups.items():
        if counts:
            kept = ("places", "truth", "added")
            shown = stripes.Pictures(**{key: part.arrays[key] for key in kept}, seed=part.facts["seed"],
                                     outputs={m: outputs[m] for m in counts})  # fmt: skip
            rows = [_row(row) for row in part.rows if row["bumps"] in counts]
            labels = {m: f"{100 * shares[m]:g} % ({m} bumps)" for m in counts if not np.isnan(shares[m])}
            figures[name] = stripes.plot(shown, rows, labels)
    return figures


def _row(row: dict[str, Any]) -> stripes.StripeRow:
    return stripes.StripeRow(**{key: value for key, value in row.items() if key != "share"})


def _data_set(part: PartResult) -> Figure:
    """Some of the stripes, some bumps, and where the bumps may lie."""
    from recombine.plotting.grids import hold_out, outline
    from recombine.plotting.images import show_image
    from recombine.plotting.style import new_figure

    task = task_of(part.facts["config"])
    values, present = all_stripes(task.space)
    some = torch.linspace(0, len(values) - 1, 6).round().long()
    images = foreground(task.scene, task.scene(values[some], present[some])).numpy()
    bumps = task.space.values(task.holdout.id_cells[torch.linspace(0, task.holdout.n_id - 1, 3).long()])
    bump_images = foreground(task.scene, task.scene(bumps)).numpy()
    figure = new_figure(11.5, 2.0)
    axes = figure.subplots(1, 10)
    for ax, image, here, value in zip(axes, images, present[some], values[some]):
        name = "x" if bool(here[0]) else "y"
        show_image(ax, image, f"{name} = {float(value.sum()):g}")
    for ax, image, value in zip(axes[6:], bump_images, bumps):
        show_image(ax, image, f"{value[0]:g}, {value[1]:g}")
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


def _scores(part: PartResult) -> Figure:
    from recombine.plotting.style import new_figure

    figure = new_figure(4.6, 3.3)
    ax = figure.subplots()
    ordered = sorted(part.rows, key=lambda row: row["bumps"])
    lines = {"ood_localization": "right place", "composed": "cosine with the bump",
             "additive": "cosine with the sum of stripes"}  # fmt: skip
    for (column, label), colour, marker in zip(lines.items(), COLOURS, "os^"):
        over_seeds(ax, ordered, "bumps", column, colour=colour, marker=marker, label=label)
    ax.axhline(float(np.mean([row["baseline"] for row in ordered])), color="0.5", lw=0.9, ls="--",
               label="bump with the sum of stripes")  # fmt: skip
    ax.set_xscale("symlog", linthresh=10)
    ticks = sorted({row["bumps"] for row in ordered})
    ax.set_xticks(ticks, [str(m) for m in ticks], fontsize=7)
    ax.set_xticks([], minor=True)
    ax.set_xlim(-1, 1.15 * max(ticks))
    ax.set_ylim(0, 1.03)
    tidy(ax)
    ax.set_xlabel("bumps beside all stripes", fontsize=9)
    ax.set_ylabel(f"unseen pairs, mean and range of {seeds_note(r['seed'] for r in ordered)}", fontsize=SMALL)
    ax.legend(frameon=False, fontsize=7, loc="lower right")
    return figure


def effects(part: PartResult) -> Effects:
    """Without bumps, and with many of them."""
    found: dict[str, dict[int, float]] = {}
    of = {(row["bumps"], row["seed"]): row for row in part.rows}
    many = part.facts["many"]
    for seed in sorted({row["seed"] for row in part.rows}):
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
    version=1,
    configs=lambda profile, seeds: list(wanted(profile, seeds).values()),
    rows=rows,
    plot=plot,
    effects=effects,
)
