"""R12: outputs for the held-out angles of a rotating digit. Decides C13.

One digit is rotated by θ. The network receives (sin θ, cos θ), and angles strictly between 160° and 200° are held out.
The *blend* at an angle θ in the gap is the linear blend of the true images at its edges,
(200 − θ)/40 · image(160°) + (θ − 160)/40 · image(200°). In the second variant several digits rotate and the gap is held
out for only one of them, so that the others are trained at these angles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.statistics import median
from recombine.core.task import Task
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.findings import PartResult, Rows
from recombine.diagnostics.model.layers import IN, OUT
from recombine.diagnostics.request import DiagnosisRequest
from recombine.plotting.style import COLOURS
from recombine.runs.config import RunConfig
from recombine.runs.store import StoredRun
from recombine.studies.framework.figure_style import (
    SMALL,
    over_seeds,
    picture_rows,
    seeds_note,
    tidy,
)
from recombine.studies.framework.learning import evidence, grouped
from recombine.studies.framework.profiles import FIRST_SEED, Profile
from recombine.studies.framework.study import FirstEffects, Runs, Study, record_undiagnosed
from recombine.studies.framework.verdicts import Effects

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOW, HIGH = 160.0, 200.0  # edges of the gap in degrees, which are not held out
DIGIT = 4  # the rotating digit; in the variant, the digit with the gap
VARIANTS = {"one": "one digit", "several": "several digits, the gap for one of them"}
SHOWN = 9  # number of angles in the figures of images


@dataclass(frozen=True)
class RotationSettings:
    """The size of the study.

    Attributes:
        angles: Grid angles of the single digit.
        several_angles: Grid angles if several digits rotate.
        digits: The digits that rotate in the variant.
        width: Channels of the decoder.
        length: Overrides that set the training length.
    """

    angles: int
    several_angles: int
    digits: tuple[int, ...]
    width: int
    length: tuple[str, ...]


SETTINGS = {
    "smoke": RotationSettings(15, 15, (4, 7), 4, ("training.steps=4",)),
    "quick": RotationSettings(360, 180, (4, 7, 9), 64, ("training.epochs=60",)),
    "standard": RotationSettings(1000, 360, (4, 7, 9), 128, ("training.epochs=60",)),
    "paper": RotationSettings(1000, 1000, tuple(range(10)), 128, ("training.epochs=200",)),
}


def config(profile: Profile, variant: str, seed: int) -> RunConfig:
    """A run of one of the variants."""
    settings = profile.of(SETTINGS)
    digits = [DIGIT] if variant == "one" else list(settings.digits)
    angles = settings.angles if variant == "one" else settings.several_angles
    factors: dict[str, Any] = {"angle": {"kind": "cyclic", "size": angles, "step": 360 / angles}}
    gap: dict[str, Any] = {"kind": "gap", "factor": "angle", "lo": LOW, "hi": HIGH, "inclusive": False}
    encoding: dict[str, Any] = {"kind": "positional", "frequencies": 1}
    if variant == "several":
        which = float(digits.index(DIGIT))
        factors["digit"] = len(digits)
        gap = {"kind": "all_of", "parts": [gap, {"kind": "centre", "lo": which, "hi": which, "factors": ["digit"]}]}
        encoding = {"kind": "mixed", "factors": {"angle": encoding, "digit": {"kind": "onehot"}}}
    images = None if profile.digits is None else [profile.digits[digit] for digit in digits]
    base = {
        "scene": {"kind": "rotated_digit", "factors": factors, "digits": digits, "images": images},
        "encoding": encoding,
        "holdout": gap,
        "decoder": {"kind": "deconv", "width": settings.width},
        "training": {
            "kind": "paper",
            "examples": {"cells": {"draw": "all"}},
            "optimizer": {"weight_decay": 1e-4},
            "allow_unseen": variant == "one",  # a single digit cannot show the angles of the gap otherwise
        },
    }
    return RunConfig.parse([*settings.length, f"seed={seed}"], base)


def request(profile: Profile, config: RunConfig) -> DiagnosisRequest:
    """Outputs of every run, and embeddings of the run in the figure."""
    drawn = len(config.scene["digits"]) == 1 and config.seed == FIRST_SEED
    return DiagnosisRequest(parts=("outputs", "embeddings") if drawn else ("outputs",))


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, int], RunConfig]:
    """Map (variant, seed) to runs."""
    return {(variant, seed): config(profile, variant, seed) for variant in VARIANTS for seed in seeds}


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Errors of every run at every angle, and images and embeddings of the first seed."""
    facts: dict[str, Any] = {"low": LOW, "high": HIGH, "digit": DIGIT, "digits": {}}
    found = PartResult("rotation", {"scores": [], "angles": []}, facts=facts)
    for (variant, seed), run in runs.labelled(wanted(profile, seeds)):
        with record_undiagnosed(found, f"run {run.id} ({variant}, seed {seed})"):
            diagnosis = runs.diagnosis(run)
            found.tables["angles"] += [{"variant": variant, "seed": seed, **row} for row in by_angle(run, diagnosis)]
            found.tables["scores"].append({"variant": variant, "seed": seed, "run": run.id, **run.summary})
            facts["digits"][variant] = run.config.scene["digits"]
            if f"outputs/{variant}" not in found.arrays:
                found.arrays.update({f"{name}/{variant}": a for name, a in pictures(run).items()})
                if diagnosis["embeddings"].computed:
                    _keep_embeddings(diagnosis, found)
    return found


def by_angle(run: StoredRun, diagnosis: Diagnosis) -> Rows:
    """One row per cell: error with respect to the truth and, in the gap, to the blend, with pixel correlations."""
    task = run.task
    outputs, truth = (torch.from_numpy(diagnosis["outputs"].arrays[name]) for name in ("output", "truth"))
    values = task.space.values(torch.arange(len(task.space)))
    held = torch.from_numpy(task.holdout.ood_mask.ravel())
    nothing = torch.full((len(values),), torch.nan)
    columns = {name: nothing.clone() for name in ("mse_blend", "r_blend", "r_truth", "blend_mse_truth")}
    blend = blended(task, values[held])
    columns["mse_blend"][held] = _mse(outputs[held], blend)
    columns["r_blend"][held] = correlation(outputs[held], blend)
    columns["r_truth"][held] = correlation(outputs[held], truth[held])
    columns["blend_mse_truth"][held] = _mse(blend, truth[held])
    which = values[:, task.space.axis("digit")].long().tolist() if "digit" in task.space.names else [0] * len(values)
    shown = run.config.scene["digits"]
    numbers = {"mse_truth": _mse(outputs, truth), **columns}
    return [
        {
            "digit": shown[which[i]],
            "angle": float(values[i, task.space.axis("angle")]),
            "held_out": bool(held[i]),
            **{name: float(column[i]) for name, column in numbers.items()},
        }
        for i in range(len(values))
    ]


def blended(task: Task, values: Float[Tensor, "cell factor"]) -> Float[Tensor, "cell row column"]:
    """The linear blend of the true images at the edges of the gap, for angles between them."""
    axis = task.space.axis("angle")
    share = ((values[:, axis] - LOW) / (HIGH - LOW))[:, None, None]
    edges = []
    for edge in (LOW, HIGH):
        at = values.clone()
        at[:, axis] = edge
        edges.append(task.scene(at))
    return (1 - share) * edges[0] + share * edges[1]


def _mse(a: Float[Tensor, "cell row column"], b: Float[Tensor, "cell row column"]) -> Float[Tensor, " cell"]:
    return (a - b).square().flatten(1).mean(1)


def correlation(a: Float[Tensor, "cell row column"], b: Float[Tensor, "cell row column"]) -> Float[Tensor, " cell"]:
    """Pearson's r over the pixels of each pair of images; NaN if one of them is constant."""
    a, b = ((image - image.mean((1, 2), keepdim=True)).flatten(1) for image in (a, b))
    return (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))


def pictures(run: StoredRun) -> dict[str, Float[np.ndarray, "..."]]:
    """Truth, output and blend at angles from edge to edge, for the digit with the gap."""
    task = run.task
    values = torch.zeros(SHOWN, task.space.n_factors)
    values[:, task.space.axis("angle")] = torch.linspace(LOW, HIGH, SHOWN)
    if "digit" in task.space.names:
        values[:, task.space.axis("digit")] = float(run.config.scene["digits"].index(DIGIT))
    with torch.no_grad():
        outputs = run.model(task.inputs(values))
    return {"truth": task.targets(values).numpy(), "outputs": outputs.numpy(), "blend": blended(task, values).numpy()}


def _keep_embeddings(diagnosis: Diagnosis, found: PartResult) -> None:
    """Store the embedding of every layer and of the true images over all angles, with UMAP if it is installed."""
    part = diagnosis["embeddings"]
    method = "umap" if part.by_layer("umap") else "pca"
    layers = {{IN: "code", OUT: "output"}.get(name, name): a for name, a in part.by_layer(method).items()}
    for layer, points in {**layers, "truth": part.arrays[f"true {method}"]}.items():
        found.arrays[f"embedding/{layer}"] = points[:, :2]
    cells = part.arrays["cells"]
    found.facts["embedding"] = {"method": method}
    found.arrays["embedded_angles"] = diagnosis.space.values(torch.from_numpy(cells))[:, 0].numpy()
    found.arrays["embedded_held"] = diagnosis.held_out[cells]


def first_effects(part: PartResult) -> FirstEffects:
    """How much closer outputs are to the blend than to the truth, and how similar, for the single digit."""
    found: dict[str, dict[int, float]] = {"C13.nearer": {}, "C13.alike": {}}
    held = [row for row in part.table("angles") if row["variant"] == "one" and row["held_out"]]
    for seed in sorted({row["seed"] for row in held}):
        group = [row for row in held if row["seed"] == seed]
        truth, blend, alike = (np.mean([row[key] for row in group]) for key in ("mse_truth", "mse_blend", "r_blend"))
        found["C13.nearer"][seed] = float(np.log10(truth / blend))
        found["C13.alike"][seed] = float(alike)
    return found


def effects(part: PartResult) -> Effects:
    """Medians over the angles of the gap, for the single digit."""
    groups = grouped([row for row in part.table("angles") if row["variant"] == "one" and row["held_out"]])

    def middle(rows: Rows, column: str) -> float:
        return median([row[column] for row in rows])

    def nearer(rows: Rows) -> float:
        return float(np.log10(middle(rows, "mse_truth") / middle(rows, "mse_blend")))

    return {
        "C13.nearer": evidence(groups, nearer, runs=lambda rows: []),
        "C13.alike": evidence(groups, lambda rows: middle(rows, "r_blend"), runs=lambda rows: []),
    }


def plot(part: PartResult) -> dict[str, Figure]:
    """Draw the error by angle, images in the gap for both variants, and embeddings by layer."""
    figures = {"R12_mse_by_angle": _errors(part)}
    for variant, name in (("one", "R12_generated_and_blended"), ("several", "R12_several_digits")):
        if f"outputs/{variant}" in part.arrays:
            figures[name] = _images(part, variant)
    if "embedded_angles" in part.arrays:
        figures["R12_embeddings"] = _embeddings(part)
    return figures


def _errors(part: PartResult) -> Figure:
    from recombine.plotting.style import OUTLINE, new_figure

    table = part.table("angles")
    shown = [variant for variant in VARIANTS if any(row["variant"] == variant for row in table)]
    figure = new_figure(4.6 * max(len(shown), 1), 3.4)
    axes: Sequence[Axes] = figure.subplots(1, max(len(shown), 1), squeeze=False, sharey=True)[0]
    for ax, variant in zip(axes, shown):
        here = sorted((row for row in table if row["variant"] == variant), key=lambda row: row["angle"])
        ax.axvspan(part.facts["low"], part.facts["high"], color=OUTLINE, alpha=0.12, lw=0)
        own = [row for row in here if row["digit"] == part.facts["digit"]]
        others = [row for row in here if row["digit"] != part.facts["digit"]]
        with_gap = f"digit {part.facts['digit']}" + (" (with the gap)" if others else "")
        if others:
            names = ", ".join(str(digit) for digit in part.facts["digits"][variant] if digit != part.facts["digit"])
            over_seeds(ax, others, "angle", "mse_truth", colour=COLOURS[2], marker="", label=f"digits {names}: truth")
        over_seeds(ax, own, "angle", "mse_truth", colour=COLOURS[0], marker="", label=f"{with_gap}: truth")
        over_seeds(ax, own, "angle", "mse_blend", colour=COLOURS[5], marker="", label=f"{with_gap}: blend")
        gap = [row for row in own if row["held_out"]]
        over_seeds(ax, gap, "angle", "blend_mse_truth", colour="0.3", marker="", label="blend against truth", ls=":")
        ax.set_yscale("log")
        ax.set_xticks(range(0, 361, 60))
        ax.set_xlabel("angle (degrees)")
        ax.set_title(VARIANTS[variant], fontsize=10)
        ax.legend(fontsize=7, frameon=False, loc="upper right", title="outputs against", title_fontsize=7)
        ax.set_xlim(0, 360)
        tidy(ax)
    axes[0].set_ylabel("mean squared error")
    figure.supxlabel(
        f"shaded: held-out angles · lines: mean, bands: range over {seeds_note(row['seed'] for row in table)} "
        "(and digits)",
        fontsize=SMALL,
    )
    return figure


def _images(part: PartResult, variant: str) -> Figure:
    angles = np.linspace(part.facts["low"], part.facts["high"], SHOWN)
    lines = {"truth": "truth", "outputs": "network", "blend": "blend of\nthe edges"}
    note = f"{VARIANTS[variant]}; angle in degrees; red frame: held out · one seed"
    return picture_rows(
        {label: part.arrays[f"{name}/{variant}"] for name, label in lines.items()},
        angles[:, None],
        [bool(part.facts["low"] < angle < part.facts["high"]) for angle in angles],
        note,
        size=0.95,
        row_0="top",
    )


def _embeddings(part: PartResult) -> Figure:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    from recombine.plotting.style import OUTLINE, new_figure

    layers = part.by_layer("embedding")
    titles = {"code": "code", "output": "output", "truth": "true images"}
    figure = new_figure(2.2 * len(layers) + 0.8, 2.6)
    axes: Sequence[Axes] = figure.subplots(1, len(layers), squeeze=False)[0]
    colours = ScalarMappable(Normalize(0, 360), "twilight")  # cyclic, like the angle
    angles, held = part.arrays["embedded_angles"], part.arrays["embedded_held"].astype(bool)
    for ax, (layer, points) in zip(axes, layers.items()):
        ax.scatter(*points[~held].T, color=colours.to_rgba(angles[~held]), s=9)
        ax.scatter(*points[held].T, color=colours.to_rgba(angles[held]), s=16, edgecolors=OUTLINE, linewidths=0.8)
        ax.set_title(titles.get(layer, f"layer {layer}"), fontsize=10)
        ax.set_facecolor("0.93")
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_box_aspect(1)
    figure.colorbar(colours, ax=list(axes), label="angle (degrees)", ticks=range(0, 361, 90), shrink=0.9, pad=0.01)
    method = part.facts["embedding"]["method"]
    figure.supxlabel(
        f"{'UMAP' if method == 'umap' else 'principal components'} of all angles · red outline: held out · one seed",
        fontsize=SMALL,
    )
    return figure


STUDY = Study(
    key="rotation",
    title="a digit rotated by held-out angles: error, embeddings, generated and blended images",
    results=("R12",),
    claims=("C13",),
    version=2,
    seeds={"standard": 5},
    wanted=wanted,
    request=request,
    rows=rows,
    plot=plot,
    effects=effects,
    first_effects=first_effects,
)
