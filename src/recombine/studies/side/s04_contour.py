"""S4, a side result: error on unseen pairs by image side N and held-out share p of the side. Decides no claim.

The hold-out is a centred square of ⌊pN⌋ values per factor. All runs of a profile take the same number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recombine.diagnostics.findings import PartResult
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import square
from recombine.studies.framework.figure_style import SMALL, seeds_note
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Runs, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ContourSettings:
    """The values of N and p, the CNN, the recipe, and the number of seeds."""

    sides: tuple[int, ...]
    shares: tuple[float, ...]
    width: int
    depth: int
    recipe: tuple[str, ...]
    seeds: int


SHARES = (0.2, 0.3, 0.4, 0.5, 0.6)
QUICK = ("training.kind=recommended", "training.steps=600")
SETTINGS = {
    "smoke": ContourSettings((8, 10), (0.3, 0.5), 4, 2, (*QUICK, "training.steps=3"), 1),
    "quick": ContourSettings((16, 20, 28), SHARES, 16, 4, QUICK, 2),
    "standard": ContourSettings(
        (20, 24, 28, 32), SHARES, 16, 4, ("training.kind=recommended", "training.steps=2000"), 3
    ),
    "paper": ContourSettings((24, 28, 32, 36, 40), SHARES, 128, 8, ("training.kind=paper",), 5),
}
ERRORS = ("id_relative_error", "ood_relative_error")  # an error per pixel would fall with N, as the bump's share does
PANELS = {"id_relative_error": "log₁₀ relative error, trained pairs",
          "ood_relative_error": "log₁₀ relative error, unseen pairs",
          "ood_localization": "unseen pairs in the correct place"}  # fmt: skip


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[int, float, int], RunConfig]:
    """Map (N, p, seed) to runs with the bump code."""
    settings = profile.of(SETTINGS)
    decoder = ["decoder.kind=cnn", f"decoder.depth={settings.depth}", f"decoder.width={settings.width}"]
    return {
        (side, share, seed): RunConfig.parse(
            [*square(side), "holdout.kind=side", f"holdout.fraction={share}", "encoding.kind=bump", *decoder,
             *settings.recipe, f"seed={seed}"]
        )
        for side in settings.sides
        for share in settings.shares
        for seed in seeds[: settings.seeds]
    }  # fmt: skip


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Scores of every run."""
    settings = profile.of(SETTINGS)
    found = PartResult("contour", {"scores": []}, facts={"width": settings.width, "depth": settings.depth})
    for (side, share, seed), run in runs.labelled(wanted(profile, seeds)):
        about = {"side": side, "share": share, "held_out": run.task.holdout.n_ood, "seed": seed, "run": run.id}
        found.tables["scores"].append({**about, **run.summary})
    return found


def grid(part: PartResult, metric: str) -> tuple[list[int], list[float], np.ndarray]:
    """N, p, and the mean of a metric over seeds by (p, N); NaN where there is no run."""
    sides = sorted({row["side"] for row in part.rows})
    shares = sorted({row["share"] for row in part.rows})
    means = np.full((len(shares), len(sides)), np.nan)
    for line, share in enumerate(shares):
        for column, side in enumerate(sides):
            values = [row[metric] for row in part.rows if (row["side"], row["share"]) == (side, share)]
            if values:
                means[line, column] = np.mean(values)
    return sides, shares, means


def plot(part: PartResult) -> dict[str, Figure]:
    """Draw maps over N and p with both axes to scale: numbers for trained pairs, labelled contours for unseen ones."""
    from matplotlib.patheffects import Normal, Stroke

    from recombine.plotting.style import new_figure

    if not part.rows:
        return {}
    both = np.log10([grid(part, metric)[2] for metric in ERRORS])
    errors = (float(np.nanmin(both)), float(np.nanmax(both)))  # one scale for trained and unseen pairs
    figure = new_figure(10.4, 3.5)
    for ax, (metric, label) in zip(figure.subplots(1, len(PANELS), sharey=True), PANELS.items()):
        sides, shares, means = grid(part, metric)
        shown = np.log10(means) if metric in ERRORS else means
        limits = dict(zip(("vmin", "vmax"), errors if metric in ERRORS else (0.0, 1.0)))
        picture = ax.pcolormesh(sides, shares, shown, shading="nearest", cmap="viridis", **limits)
        if metric == ERRORS[0]:  # hardly varies, so contours would follow the noise of seeds
            for (line, column), value in np.ndenumerate(shown):
                colour = "black" if value > np.mean(picture.get_clim()) else "white"
                ax.text(sides[column], shares[line], f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
        elif min(shown.shape) > 1 and np.isfinite(shown).all() and np.ptp(shown) > 0:
            lines = ax.contour(sides, shares, shown, levels=5, colors="black", linewidths=1.0, linestyles="solid")
            halo = [Stroke(linewidth=2.6, foreground="white"), Normal()]  # visible on dark and light backgrounds
            lines.set_path_effects(halo)
            for text in ax.clabel(lines, fmt="%.3g", fontsize=7):
                text.set_path_effects(halo)
        if metric != ERRORS[0]:
            ax.scatter(*np.meshgrid(sides, shares), s=5, color="black", edgecolors="white", linewidths=0.5, zorder=3)
        ax.set_xticks(sides, [str(side) for side in sides])
        ax.set_yticks(shares, [f"{share:g}" for share in shares])
        ax.set_xlabel("image side N")
        ax.set_title(label, fontsize=10)
        figure.colorbar(picture, ax=ax)
    figure.axes[0].set_ylabel("held-out share p of the side")
    figure.supxlabel(
        f"CNN of depth {part.facts['depth']}, width {part.facts['width']}, bump code, centred square of ⌊pN⌋ values "
        f"held out · mean of {seeds_note(row['seed'] for row in part.rows)} · dots: measured; contours interpolated",
        fontsize=SMALL,
    )
    return {"S04_contour": figure}


STUDY = Study(
    key="contour",
    title="error by image side and held-out share of the side",
    results=("S4",),
    version=1,
    wanted=wanted,
    rows=rows,
    plot=plot,
)
