"""S1, a side result: decoders with one token per pixel compared with the CNN on the same pairs. Decides no claim.

Transformers are slow without a GPU, so profiles other than `paper` use a smaller image and narrower networks. All
decoders use the same image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recombine.diagnostics.findings import PartResult
from recombine.plotting.style import COLOURS
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import centre, square
from recombine.studies.framework.figure_style import SMALL, keep_samples, kept_samples, seeds_note, tidy
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Runs, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 7
NAMES = {"cnn": "CNN", "transformer": "transformer", "pixel_mlp": "pixel MLP"}


@dataclass(frozen=True)
class PixelDecoderSettings:
    """N, width and depths of each kind of decoder, and the shared recipe."""

    side: int
    decoders: dict[str, tuple[int, tuple[int, ...]]]
    recipe: tuple[str, ...]


QUICK = ("training.kind=recommended", "training.steps=600")
SETTINGS = {
    "smoke": PixelDecoderSettings(
        8, {"cnn": (4, (2,)), "transformer": (8, (1,)), "pixel_mlp": (8, (1,))}, (*QUICK, "training.steps=3")
    ),
    "quick": PixelDecoderSettings(14, {"cnn": (16, (4,)), "transformer": (32, (2,)), "pixel_mlp": (64, (2, 4))}, QUICK),
    "standard": PixelDecoderSettings(
        20, {"cnn": (32, (4,)), "transformer": (64, (2, 3)), "pixel_mlp": (128, (2, 4))}, ("training.kind=recommended",)
    ),
    "paper": PixelDecoderSettings(
        28,
        {"cnn": (64, (4,)), "transformer": (128, (2, 3, 4, 5)), "pixel_mlp": (256, (2, 4))},
        ("training.kind=paper",),
    ),
}


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, int, int], RunConfig]:
    """Map (kind, depth, seed) to runs with the bump code and the centre held out."""
    settings = profile.of(SETTINGS)
    setting = [*square(settings.side), *centre(settings.side), "encoding.kind=bump", *settings.recipe]
    return {
        (kind, depth, seed): RunConfig.parse(
            [*setting, f"decoder.kind={kind}", f"decoder.width={width}", f"decoder.depth={depth}", f"seed={seed}"]
        )
        for kind, (width, depths) in settings.decoders.items()
        for depth in depths
        for seed in seeds
    }


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Scores of every run, and pictures of the first seed."""
    found = PartResult("pixel_decoders", {"scores": []}, facts={})
    for (kind, depth, seed), run in runs.labelled(wanted(profile, seeds)):
        name = f"{NAMES[kind]}, depth {depth}"
        found.tables["scores"].append({"decoder": name, "seed": seed, "run": run.id, **run.summary})
        keep_samples(found, name, run, SHOWN)
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """Plot errors and localization by decoder, and draw outputs for unseen pairs."""
    if not part.rows:
        return {}
    side = part.facts["config"]["scene"]["factors"]["x"]
    return {
        "S01_scores": _scores(part, side),
        "S01_samples": kept_samples(part, f"unseen pairs (x, y), N = {side}, bump code"),
    }


def _scores(part: PartResult, side: int) -> Figure:
    from recombine.plotting.style import new_figure

    decoders = list(dict.fromkeys(row["decoder"] for row in part.rows))
    figure = new_figure(7.6, 1.2 + 0.42 * len(decoders))
    panels = {"mse": "mean squared error", "localization": "share in the correct place"}
    for ax, (metric, label) in zip(figure.subplots(1, 2, sharey=True), panels.items()):
        for split, colour, shift in (("id", COLOURS[0], 0.12), ("ood", COLOURS[5], -0.12)):
            for line, decoder in enumerate(reversed(decoders)):
                values = [row[f"{split}_{metric}"] for row in part.rows if row["decoder"] == decoder]
                text = {"id": "trained pairs", "ood": "unseen pairs"}[split] if line == 0 else None
                ax.plot(values, [line + shift] * len(values), "o", color=colour, ms=4, alpha=0.6, label=text)
                ax.plot([np.mean(values)], [line + shift], "|", color=colour, ms=11, mew=2)
        ax.set_yticks(range(len(decoders)), list(reversed(decoders)))
        ax.set_xlabel(label)
        tidy(ax)
        if metric == "mse":
            ax.set_xscale("log")
            ax.legend(fontsize=SMALL, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=2)
        else:
            ax.set_xlim(-0.04, 1.04)
    seeds = seeds_note(row["seed"] for row in part.rows)
    note = f"dots: {seeds}, bars: their mean · N = {side}, bump code, centre held out"
    figure.supxlabel(note, fontsize=SMALL)
    return figure


STUDY = Study(
    key="pixel_decoders",
    title="transformers and pixel MLPs compared with a CNN",
    results=("S1",),
    version=1,
    wanted=wanted,
    rows=rows,
    plot=plot,
)
