"""S3, a side result: bump codes of other widths. Decides no claim.

Unit i of the code responds with exp(−(i − x)²/2w²). The multiplier applies to w², so w scales with its square root.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recombine.diagnostics.findings import PartResult
from recombine.plotting.style import COLOURS
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import centre, square
from recombine.studies.framework.figure_style import (
    SMALL,
    keep_samples,
    kept_samples,
    over_seeds,
    seeds_note,
    tidy,
)
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Runs, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MULTIPLIERS = (1, 3, 5, 7, 9, 11)
SHOWN = 6


@dataclass(frozen=True)
class CodeWidthSettings:
    """The multipliers and the width of the CNN."""

    multipliers: tuple[int, ...]
    width: int


SETTINGS = {
    "smoke": CodeWidthSettings((1, 11), 4),
    "quick": CodeWidthSettings((1, 5, 11), 16),
    "standard": CodeWidthSettings(MULTIPLIERS, 32),
    "paper": CodeWidthSettings(MULTIPLIERS, 64),
}


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[int, int], RunConfig]:
    """Map (multiplier, seed) to runs with the centre held out."""
    settings = profile.of(SETTINGS)
    setting = [*square(profile.side), *centre(profile.side), "encoding.kind=bump", "decoder.kind=cnn"]
    setting += [f"decoder.depth={profile.standard_depth}", f"decoder.width={settings.width}", *profile.inner_recipe]
    return {
        (multiplier, seed): RunConfig.parse([*setting, f"encoding.width={math.sqrt(multiplier)!r}", f"seed={seed}"])
        for multiplier in settings.multipliers
        for seed in seeds
    }


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Scores of every run, and pictures of the first seed."""
    found = PartResult("code_widths", {"scores": []}, facts={})
    for (multiplier, seed), run in runs.labelled(wanted(profile, seeds)):
        found.tables["scores"].append({"multiplier": multiplier, "seed": seed, "run": run.id, **run.summary})
        keep_samples(found, str(multiplier), run, SHOWN)
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """Plot error and localization by multiplier, and draw outputs for unseen pairs."""
    from recombine.plotting.style import new_figure

    if not part.rows:
        return {}
    figure = new_figure(7.4, 3.0)
    panels = {"mse": "mean squared error", "localization": "share in the correct place"}
    for ax, (metric, label) in zip(figure.subplots(1, 2), panels.items()):
        for split, colour, marker in (("id", COLOURS[0], "o"), ("ood", COLOURS[5], "s")):
            text = {"id": "trained pairs", "ood": "unseen pairs"}[split]
            over_seeds(ax, part.rows, "multiplier", f"{split}_{metric}", colour=colour, marker=marker, label=text)
        ax.set_xlabel("multiplier of w²")
        ax.set_xticks(sorted({row["multiplier"] for row in part.rows}))
        ax.set_ylabel(label)
        tidy(ax)
        if metric == "mse":
            ax.set_yscale("log")
            ax.legend(fontsize=SMALL, frameon=False)
        else:
            ax.set_ylim(-0.04, 1.04)
    config = part.facts["config"]
    figure.supxlabel(
        f"CNN of depth {config['decoder']['depth']}, width {config['decoder']['width']}, bump code, centre held out · "
        f"mean and range of {seeds_note(row['seed'] for row in part.rows)}",
        fontsize=SMALL,
    )
    shown = kept_samples(part, "unseen pairs (x, y) by width of the code", label="w² × {}", size=0.85)
    return {"S03_code_widths": figure, "S03_samples": shown}


STUDY = Study(
    key="code_widths",
    title="bump codes of other widths",
    results=("S3",),
    version=1,
    wanted=wanted,
    rows=rows,
    plot=plot,
)
