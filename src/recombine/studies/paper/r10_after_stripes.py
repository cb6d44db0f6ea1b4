"""R10 and R15: volume element, first layer and tuning of networks trained on stripes. Decides C12."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.model.layers import IN, OUT
from recombine.diagnostics.request import DiagnosisRequest
from recombine.plotting.style import BLUE, GREEN, ORANGE, VERMILION
from recombine.runs.config import RunConfig
from recombine.studies.framework.figure_style import SMALL, by_layer, over_seeds, seeds_note, task_of, tidy
from recombine.studies.framework.layer_figures import volume_maps
from recombine.studies.framework.layers import EXACT, volumes, warp_row
from recombine.studies.framework.learning import Rows, evidence, grouped, learning
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import FirstEffects, Runs, Study, record_undiagnosed
from recombine.studies.framework.verdicts import Effects
from recombine.studies.paper import r08_few_shot as few_shot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST_UNITS = 8
REQUEST = DiagnosisRequest(parts=("geometry", "tuning"), geometry=(EXACT,))
KINDS: tuple[Literal["stripe", "bump"], ...] = ("stripe", "bump")
STYLES = {"bumps": (VERMILION, "s"), "stripes": (GREEN, "^"), "stripes + bumps": (BLUE, "o")}


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, int], RunConfig]:
    """Map (training data, seed) to runs of the same network and training length."""
    settings = profile.of(few_shot.SETTINGS)
    found: dict[tuple[str, int], RunConfig] = {}
    for seed in seeds:
        found["bumps", seed] = few_shot.config(settings, None, seed, stripes=False)
        found["stripes", seed] = few_shot.config(settings, 0, seed)
        found["stripes + bumps", seed] = few_shot.config(settings, few_shot.many(profile), seed)
    return found


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Tuning of every layer and roughness of every run, and maps and units of the first seed."""
    many = few_shot.many(profile)
    found = PartResult("after_stripes", {"tuning": [], "warp": []}, facts={"configs": {}, "bumps": many})
    for (data, seed), run in runs.labelled(wanted(profile, seeds)):
        with record_undiagnosed(found, f"run {run.id} ({data}, seed {seed})"):
            about = {"data": data, "seed": seed, "run": run.id}
            diagnosis = runs.diagnosis(run)
            first = data not in found.facts["configs"]
            found.tables["tuning"] += [{**about, **row} for row in _tuning(diagnosis)]
            found.tables["warp"].append({**about, **learning(run), **warp_row(diagnosis)})
            if first:
                found.facts["configs"][data] = run.config.to_dict()
                found.arrays.update({f"volume/{data}/{n}": values for n, values in volumes(diagnosis).items()})
                _keep_units(found, data, diagnosis)
    return found


def _hidden(diagnosis: Diagnosis) -> dict[str, int]:
    """Map the names of hidden layers to their numbers, from 1."""
    return {name: n for n, name in enumerate((name for name in diagnosis.layers if name not in (IN, OUT)), 1)}


def _tuning(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """One row per hidden layer."""
    numbers = _hidden(diagnosis)
    return [
        {"layer": numbers[row["layer"]], "name": row["layer"], **{k: v for k, v in row.items() if k != "layer"}}
        for row in diagnosis["tuning"].table("layers")
        if row["layer"] in numbers
    ]


def _keep_units(found: PartResult, data: str, diagnosis: Diagnosis) -> None:
    """Store the most stripe-like and most bump-like unit of every layer, and the strongest units of the first one."""
    tuning = diagnosis["tuning"]
    indices = {(row["layer"], row["unit"]): [row["stripe"], row["bump"]] for row in tuning.table("sampled")}
    for name, number in _hidden(diagnosis).items():
        for kind in KINDS:
            typical = [r for r in tuning.table("typical") if (r["layer"], r["kind"]) == (name, kind)][:1]
            maps = tuning.arrays.get(f"{kind} maps/{name}", np.empty(0))[:1]
            found.arrays[f"unit/{data}/{number}/{kind}"] = maps.astype(np.float32)
            if typical:
                both = indices[name, typical[0]["unit"]]
                found.arrays[f"index/{data}/{number}/{kind}"] = np.array(both)[:, None]
        if number == 1:
            found.arrays[f"first/{data}"] = tuning.arrays[f"strongest maps/{name}"][:FIRST_UNITS]


def plot(part: PartResult) -> dict[str, Figure]:
    """Draw maps of the volume element, first-layer units, tuning of typical units, and indices by layer."""
    if not part.facts["configs"]:
        return {}
    shown = list(part.facts["configs"])
    holdout = task_of(part.facts["configs"][shown[0]]).holdout
    figures = {
        "R10_volume": volume_maps(
            {_label(part, data): by_layer(part, f"volume/{data}/") for data in shown},
            lambda _: holdout,
            "log₁₀ dv by layer (derivatives) and training data, one seed; hold-out in red",
        ),
        "R10_first_layer": _first_layer(part, shown),
        "R15_indices": _indices(part),
    }
    for data in shown:
        if data != "bumps":
            figures[f"R15_tuning_{data.replace(' + ', '_')}"] = _units(part, data)
    return figures


def _label(part: PartResult, data: str) -> str:
    return {"bumps": "bumps only", "stripes": "stripes only"}.get(data, f"stripes +\n{part.facts['bumps']} bumps")


def _first_layer(part: PartResult, shown: list[str]) -> Figure:
    from recombine.plotting.grids import outline
    from recombine.plotting.style import new_figure

    holdout = task_of(part.facts["configs"][shown[0]]).holdout
    figure = new_figure(1.15 * FIRST_UNITS + 1.1, 1.2 * len(shown) + 0.4)
    axes = figure.subplots(len(shown), FIRST_UNITS, squeeze=False)
    for line, data in zip(axes, shown):
        for ax in line:
            ax.set_xticks([])
            ax.set_yticks([])
        for ax, values in zip(line, part.arrays[f"first/{data}"]):
            ax.imshow(values.T, origin="lower", cmap="viridis", interpolation="nearest")
            outline(holdout, ax, linewidths=0.8)
        line[0].set_ylabel(_label(part, data), rotation=0, ha="right", va="center", fontsize=SMALL)
    figure.supxlabel(
        "activation over (x, y) of the most variable first-layer units, one seed; hold-out in red", fontsize=SMALL
    )
    return figure


def _units(part: PartResult, data: str) -> Figure:
    """Draw the most stripe-like and most bump-like unit of every layer: map and means along both axes."""
    from recombine.plotting.grids import outline
    from recombine.plotting.style import new_figure

    numbers = sorted({row["layer"] for row in part.rows if row["data"] == data})
    holdout = task_of(part.facts["configs"][data]).holdout
    figure = new_figure(7.6, 1.35 * len(numbers) + 0.8)
    axes = figure.subplots(len(numbers), 4, squeeze=False, width_ratios=[1, 1.5, 1, 1.5])
    for line, number in zip(axes, numbers):
        for side, kind in enumerate(KINDS):
            picture, curves = line[2 * side], line[2 * side + 1]
            maps = part.arrays[f"unit/{data}/{number}/{kind}"]
            picture.set_xticks([])
            picture.set_yticks([])
            picture.set_ylabel("y", fontsize=SMALL, rotation=0, ha="right", va="center")
            if number == numbers[-1]:
                picture.set_xlabel("x", fontsize=SMALL)
                curves.set_xlabel("x or y", fontsize=SMALL)
            if not len(maps):
                continue
            picture.imshow(maps[0].T, origin="lower", cmap="viridis", interpolation="nearest")
            outline(holdout, picture, linewidths=0.8)
            stripe, bump = part.arrays[f"index/{data}/{number}/{kind}"][:, 0]
            curves.plot(maps[0].mean(1), color=BLUE, lw=1.2, label="over x (mean over y)")
            curves.set_ylabel("activation", fontsize=6)
            curves.plot(maps[0].mean(0), color=ORANGE, lw=1.2, ls="--", label="over y (mean over x)")
            curves.set_title(f"stripe {stripe:.2f}, bump {bump:.2f}", fontsize=7, pad=2)
            tidy(curves)
            curves.tick_params(labelsize=6)
        line[0].set_ylabel(f"layer {number}\ny", fontsize=SMALL, rotation=90, ha="center", va="bottom")
    axes[0, 1].legend(frameon=False, fontsize=6)
    label = _label(part, data).replace("\n", " ")
    figure.suptitle(
        f"{label}: the most stripe-like (left) and most bump-like (right) of the strongly varying units, one seed",
        fontsize=9,
    )
    return figure


def _indices(part: PartResult) -> Figure:
    from recombine.plotting.style import new_figure

    figure = new_figure(6.4, 2.9)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, kind in zip(axes, KINDS):
        for data, (colour, marker) in STYLES.items():
            chosen = [row for row in part.rows if row["data"] == data]
            label = _label(part, data).replace("\n", " ")
            over_seeds(ax, chosen, "layer", f"weighted_{kind}", colour=colour, marker=marker, label=label)
        tidy(ax)
        ax.set_xticks(sorted({row["layer"] for row in part.rows}))
        ax.set_xlabel("layer", fontsize=9)
        ax.set_title(f"{kind} index", fontsize=10)
        ax.set_ylim(0, 1)
    seeds = seeds_note(row["seed"] for row in part.rows)
    axes[0].set_ylabel(f"mean over units, weighted by variance\n(mean and range of {seeds})", fontsize=SMALL)
    axes[1].legend(frameon=False, fontsize=7)
    return figure


def first_effects(part: PartResult) -> FirstEffects:
    """First against last hidden layer after training on stripes and bumps; roughness against training on bumps."""
    found: dict[str, dict[int, float]] = {}
    rough = {(row["data"], row["seed"]): row["roughness_ood"] for row in part.table("warp")}
    for seed in sorted({row["seed"] for row in part.rows}):
        layers = [row for row in part.rows if row["data"] == "stripes + bumps" and row["seed"] == seed]
        if layers:
            first, last = layers[0], layers[-1]
            found.setdefault("C12.stripes_early", {})[seed] = first["weighted_stripe"] - last["weighted_stripe"]
            found.setdefault("C12.bumps_late", {})[seed] = last["weighted_bump"] - first["weighted_bump"]
        if ("bumps", seed) in rough and ("stripes + bumps", seed) in rough:
            found.setdefault("C12.smooth", {})[seed] = rough["bumps", seed] - rough["stripes + bumps", seed]
    return found


def effects(part: PartResult) -> Effects:
    """First against last hidden layer after training on stripes and bumps; roughness against training on bumps."""
    runs = grouped(part.table("warp"), lambda rows: len(rows) == len(STYLES))

    def layers(rows: Rows) -> tuple[dict[str, Any], dict[str, Any]]:
        own = [r for r in part.rows if (r["data"], r["seed"]) == ("stripes + bumps", rows[0]["seed"])]
        return own[0], own[-1]

    def change(rows: Rows, kind: str) -> float:
        first, last = layers(rows)
        return last[f"median_{kind}"] - first[f"median_{kind}"]

    def smooth(rows: Rows) -> float:
        rough = {row["data"]: row["roughness_ood_median"] for row in rows}
        return float(np.log10(rough["bumps"] / rough["stripes + bumps"]))

    numbers: dict[str, Callable[[Rows], float]] = {
        "C12.stripes_early": lambda rows: -change(rows, "stripe"),
        "C12.bumps_late": lambda rows: change(rows, "bump"),
        "C12.smooth": smooth,
    }
    return {
        name: evidence(runs, number, runs=lambda rows: [row for row in rows if row["data"] != "stripes"])
        for name, number in numbers.items()
    }


STUDY = Study(
    key="after_stripes",
    title="volume element, first layer and tuning after training on stripes",
    results=("R10", "R15"),
    claims=("C12",),
    version=3,
    seeds={"standard": 12},
    wanted=wanted,
    request=REQUEST,
    rows=rows,
    plot=plot,
    effects=effects,
    first_effects=first_effects,
)
