"""R1: error landscapes and outputs of decoders with four encodings under two hold-outs. Decides C1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from recombine.diagnostics.findings import PartResult
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import CODE_LABELS, CODES, HOLDOUTS, cnn
from recombine.studies.framework.figure_style import cells_to_show, seeds_note, task_of
from recombine.studies.framework.learning import Rows, evidence, grouped
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import FirstEffects, Runs, Study
from recombine.studies.framework.verdicts import Effects

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_ID, SHOWN_OOD = 2, 5


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, str, int], RunConfig]:
    """Map (hold-out, code, seed) to runs."""
    return {
        (holdout, code, seed): cnn(profile, code, profile.standard_depth, seed, holdout)
        for holdout in HOLDOUTS
        for code in CODES
        for seed in seeds
    }


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Scores of every run, mean error of every cell, and pictures of the first seed."""
    from recombine.scoring.outputs import render

    found = PartResult("landscapes", {"scores": []}, facts={"configs": {}, "seed_shown": min(seeds)})
    errors: dict[str, list[np.ndarray]] = {}
    for (holdout, code, seed), run in runs.labelled(wanted(profile, seeds)):
        found.tables["scores"].append({"holdout": holdout, "code": code, "seed": seed, "run": run.id, **run.summary})
        errors.setdefault(f"mse/{holdout}/{code}", []).append(run.scores.columns["mse"])
        found.facts["configs"].setdefault(holdout, run.config.to_dict())
        if f"outputs/{holdout}/{code}" not in found.arrays:
            cells = cells_to_show(run.task.holdout, SHOWN_OOD, SHOWN_ID)
            truth, outputs = render(run.model, run.task, cells)
            found.arrays[f"cells/{holdout}"], found.arrays[f"truth/{holdout}"] = cells.numpy(), truth
            found.arrays[f"outputs/{holdout}/{code}"] = outputs
    found.arrays.update({name: np.mean(maps, axis=0) for name, maps in errors.items()})
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """For each hold-out, draw the error landscapes of all codes and their outputs for the same cells."""
    from recombine.plotting.images import comparison

    figures = {}
    for holdout, config in part.facts["configs"].items():
        task = task_of(config)
        scores = [row for row in part.rows if row["holdout"] == holdout]
        codes = [code for code in CODES if f"mse/{holdout}/{code}" in part.arrays]
        titles = {}
        for code in codes:
            found = [100 * row["ood_localization"] for row in scores if row["code"] == code]
            titles[CODE_LABELS[code]] = (
                f"{CODE_LABELS[code]}: correct place for\n{np.mean(found):.0f} % [{min(found):.0f}, {max(found):.0f}] "
                "of unseen pairs"
            )
        figure = comparison(
            task,
            {CODE_LABELS[code]: part.arrays[f"mse/{holdout}/{code}"] for code in codes},
            {CODE_LABELS[code]: part.arrays[f"outputs/{holdout}/{code}"] for code in codes},
            part.arrays[f"truth/{holdout}"],
            part.arrays[f"cells/{holdout}"].tolist(),
            titles,
        )
        decoder = config["decoder"]
        figure.suptitle(
            f"CNN of depth {decoder['depth']}, width {decoder['width']}, {holdout} held out; mean and range of "
            f"{seeds_note(row['seed'] for row in scores)}, outputs of one seed",
            fontsize=10,
        )
        figures[f"R01_{holdout}"] = figure
    return figures


def first_effects(part: PartResult) -> FirstEffects:
    """Worst and best case over codes and hold-outs, for seeds that have all of them."""
    found: dict[str, dict[int, float]] = {"C1.learnt": {}, "C1.fails": {}, "C1.error": {}}
    for seed in sorted({row["seed"] for row in part.rows}):
        group = [row for row in part.rows if row["seed"] == seed]
        if len(group) < len(CODES) * len(HOLDOUTS):
            continue
        found["C1.learnt"][seed] = min(row["id_localization"] for row in group)
        found["C1.fails"][seed] = max(row["ood_localization"] for row in group)
        found["C1.error"][seed] = min(float(np.log10(row["ood_mse"] / row["id_mse"])) for row in group)
    return found


def effects(part: PartResult) -> Effects:
    """Worst and best case over codes and hold-outs, for seeds that have all of them."""
    groups = grouped(part.rows, lambda rows: len(rows) == len(CODES) * len(HOLDOUTS))
    numbers: dict[str, Callable[[Rows], float]] = {
        "C1.learnt": lambda rows: max(float(np.log10(row["id_relative_error"])) for row in rows),
        "C1.fails": lambda rows: max(row["ood_localization"] for row in rows),
        "C1.error": lambda rows: min(float(np.log10(row["ood_mse"] / row["id_mse"])) for row in rows),
    }
    return {name: evidence(groups, number, runs=lambda rows: []) for name, number in numbers.items()}


STUDY = Study(
    key="landscapes",
    title="error landscapes and samples for four encodings and two hold-outs",
    results=("R1",),
    claims=("C1",),
    version=2,
    seeds={"standard": 8},
    wanted=wanted,
    rows=rows,
    plot=plot,
    effects=effects,
    first_effects=first_effects,
)
