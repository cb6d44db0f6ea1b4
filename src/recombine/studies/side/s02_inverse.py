"""S2, a side result: the inverse task, image → code, compared with code → image. Decides no claim.

An encoder maps images to codes, with the same pairs held out as in R1. Its error is the distance, in grid steps,
between the true factor values and those whose code is closest to its output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from recombine.diagnostics.findings import PartResult
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import CODE_LABELS, centre, cnn, square
from recombine.studies.framework.figure_style import SMALL, seeds_note, task_of
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Runs, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CODES = ("bump", "ramp")
WAYS = {"encoder": "image → code", "decoder": "code → image"}
UNITS = {"encoder": "position error (grid steps)", "decoder": "position error (px)"}


def encoder(profile: Profile, code: str, seed: int) -> RunConfig:
    """An encoder trained on bumps with the centre held out."""
    recipe = profile.ramp_recipe if code == "ramp" else profile.recipe
    setting = [*square(profile.side), *centre(profile.side), f"encoding.kind={code}", "decoder.kind=encoder"]
    return RunConfig.parse([*setting, *recipe, f"seed={seed}"])


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, str, int], RunConfig]:
    """Map (way, code, seed) to runs; those of the decoder are R1's."""
    makers = {
        "encoder": lambda code, seed: encoder(profile, code, seed),
        "decoder": lambda code, seed: cnn(profile, code, profile.standard_depth, seed),
    }
    return {(way, code, seed): makers[way](code, seed) for way in WAYS for code in CODES for seed in seeds}


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Scores of every run, and the mean position error of every cell."""
    found = PartResult("inverse", {"scores": []}, facts={})
    errors: dict[str, list[np.ndarray]] = {}
    for (way, code, seed), run in runs.labelled(wanted(profile, seeds)):
        found.tables["scores"].append({"way": way, "code": code, "seed": seed, "run": run.id, **run.summary})
        errors.setdefault(f"position_error/{way}/{code}", []).append(run.scores.columns["position_error"])
        found.facts.setdefault("config", run.config.to_dict())
    found.arrays.update({name: np.mean(maps, axis=0) for name, maps in errors.items()})
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """Draw the position error over the plane: encoders above decoders, one column per code."""
    from recombine.plotting.grids import landscape
    from recombine.plotting.style import new_figure

    if not part.rows:
        return {}
    task = task_of(part.facts["config"])
    figure = new_figure(7.2, 6.4)
    axes = figure.subplots(len(WAYS), len(CODES))
    worst = max(float(a.max()) for a in part.arrays.values())
    for line, way in enumerate(WAYS):
        for column, code in enumerate(CODES):
            ax, errors = axes[line, column], part.arrays.get(f"position_error/{way}/{code}")
            if errors is None:
                ax.set_axis_off()
                continue
            grid = errors.reshape(task.space.shape)
            landscape(task.holdout, grid, UNITS[way], ax, (0.0, max(worst, 1.0)))
            ax.set_box_aspect(1)
            shares = [100 * row["ood_localization"] for row in part.rows if (row["way"], row["code"]) == (way, code)]
            ax.set_title(
                f"{WAYS[way]}, {CODE_LABELS[code]}: correct for\n{np.mean(shares):.0f} % [{min(shares):.0f}, "
                f"{max(shares):.0f}] of unseen pairs",
                fontsize=9,
            )
    figure.supxlabel(
        f"mean of {seeds_note(row['seed'] for row in part.rows)} [range] · outlined: held out · correct: within one "
        "pixel (images) or one grid step (codes) in x and in y",
        fontsize=SMALL,
    )
    return {"S02_inverse": figure}


STUDY = Study(
    key="inverse",
    title="the inverse task, image to code, compared with code to image",
    results=("S2",),
    version=1,
    wanted=wanted,
    rows=rows,
    plot=plot,
)
