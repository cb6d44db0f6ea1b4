"""R2: is the output for an unseen pair a sum of remembered outputs? Both sides of the test, two codes. Decides C2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.core.statistics import median
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.numerics.nonnegative_superposition import nonnegative_superposition
from recombine.diagnostics.numerics.superposition import Superposition, superposition, superposition_of_inputs
from recombine.plotting.style import COLOURS
from recombine.runs.config import RunConfig
from recombine.runs.store import StoredRun
from recombine.studies.framework.baseline import CODE_LABELS, CODES, TWO_CODES, cnn
from recombine.studies.framework.figure_style import (
    SMALL,
    grid_outputs,
    picture_rows,
    seeds_note,
    spread_cells,
    task_of,
    tidy,
)
from recombine.studies.framework.learning import Rows, evidence, grouped, learning
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import FirstEffects, Runs, Study, record_undiagnosed
from recombine.studies.framework.verdicts import Effects, Evidence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 5
BINS = np.linspace(-1, 1, 41)


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Medians over OOD cells of every run and side, histograms of the cosines, pictures of the first seed."""
    found = PartResult("superpositions", {"medians": [], "free_weights": []}, facts={"configs": {}})
    for (code, seed), run in runs.labelled(wanted(profile, seeds)):
        with record_undiagnosed(found, f"run {run.id} ({code}, seed {seed})"):
            tests = _tests(run, code)
            about = {"code": code, "seed": seed, "run": run.id}
            found.tables["medians"] += [{**about, **_medians(test)} for test in tests]
            found.tables["free_weights"].append({**about, **learning(run), **_free_weights(run)})
            if code not in TWO_CODES:
                continue
            _add_histograms(found, code, next(t for t in tests if t.side == "output" and t.centred))
            if code not in found.facts["configs"]:
                found.facts["configs"][code] = run.config.to_dict()
                for test in tests:
                    if not test.centred:
                        _add_pictures(found, f"{code}/{test.side}", test)
    return found


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, int], RunConfig]:
    """(code, seed) → a CNN of the standard depth, centre held out."""
    return {(code, seed): cnn(profile, code, profile.standard_depth, seed) for code in CODES for seed in seeds}


def _free_weights(run: StoredRun) -> dict[str, float]:
    """Medians over all OOD cells of what the best sums of remembered outputs explain, and of the controls."""
    outputs, truth = grid_outputs(run.model, run.task)
    options = {"truth": truth, "most_cells": len(run.task.space)}
    found = nonnegative_superposition(outputs, run.task.space, run.task.holdout, **options)
    assert found.truth is not None
    names = ("share", "truth", "unrelated", "trained")
    return {name: median(getattr(found, name)) for name in names} | {"blank": float(found.blank.mean())}


def _tests(run: StoredRun, code: str) -> list[Superposition]:
    """Output side, and for population codes input side, plain and centred."""
    task = run.task
    outputs, truth = grid_outputs(run.model, task)
    cells = spread_cells(task.holdout, SHOWN).tolist()
    tests = []
    for centred in (False, True):
        common: dict[str, Any] = {"truth": truth, "centred": centred, "pictures": cells}
        tests.append(superposition(outputs, task.space, task.holdout, **common))
        if code != "ramp":  # the mean of ramp codes is just another coordinate
            tests.append(superposition_of_inputs(outputs, run.model, task.inputs, task.space, task.holdout, **common))
    return tests


def _medians(test: Superposition) -> dict[str, Any]:
    assert test.cosine_truth is not None
    assert test.truth_superposition is not None
    return {
        "side": test.side,
        "centred": test.centred,
        "cells": len(test.cells),
        "cosine": median(test.cosine),
        "cosine_truth": median(test.cosine_truth),
        "truth_superposition": median(test.truth_superposition),
        "energy": median(test.energy),
        "factor_energy": median(test.factor_energy),
        "nearer": median(test.cosine - test.cosine_truth),
    }


def _add_histograms(found: PartResult, code: str, test: Superposition) -> None:
    for name in ("cosine", "cosine_truth", "truth_superposition"):
        values = getattr(test, name)
        counts = np.histogram(values[np.isfinite(values)], bins=BINS)[0]
        key = f"histogram/{code}/{name}"
        found.arrays[key] = found.arrays.get(key, 0) + counts


def _add_pictures(found: PartResult, key: str, test: Superposition) -> None:
    pictures = test.pictures
    assert pictures.truth is not None
    found.arrays[f"cells/{key}"] = pictures.cells
    for name in ("truth", "output", "superposition", "parts"):
        found.arrays[f"{name}/{key}"] = getattr(pictures, name).astype(np.float32)


def plot(part: PartResult) -> dict[str, Figure]:
    """Per code and side the panels; the cosines of all cells and seeds."""
    figures = {}
    for key in [name.partition("/")[2] for name in part.arrays if name.startswith("cells/")]:
        code, _, side = key.partition("/")
        task = task_of(part.facts["configs"][code])
        parts = part.arrays[f"parts/{key}"]
        names = (
            ("D(x, ȳ)", "D(x̄, y)") if side == "input" else ("mean ID output\nsharing x", "mean ID output\nsharing y")
        )
        lines = {
            "truth": part.arrays[f"truth/{key}"],
            "output D(x, y)": part.arrays[f"output/{key}"],
            "superposition\n(best scale)": part.arrays[f"superposition/{key}"],
            names[0]: _brightened(parts[:, 0]),
            names[1]: _brightened(parts[:, 1]),
        }
        cells = part.arrays[f"cells/{key}"]
        places = task.space.values(_tensor(cells)).numpy()
        figures[f"R02_{code}_{side}_side"] = picture_rows(
            lines,
            places,
            [True] * len(cells),
            f"{CODE_LABELS[code]}, {side} side, one seed; unseen pairs (x, y)\nthe two parts are scaled to equal peaks",
        )
    figures["R02_cosines"] = _cosines(part)
    return figures


def _tensor(cells: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(cells)


def _brightened(images: np.ndarray) -> np.ndarray:
    peaks = images.max(axis=(1, 2), keepdims=True)
    return images / np.where(peaks > 0, peaks, 1)


def _cosines(part: PartResult) -> Figure:
    from recombine.plotting.style import new_figure

    codes = [code for code in TWO_CODES if code in part.facts["configs"]]
    figure = new_figure(3.6 * len(codes), 3.0)
    axes = figure.subplots(1, len(codes), squeeze=False, sharey=True)[0]
    lines = {
        "cosine": ("output with superposition", COLOURS[1]),
        "cosine_truth": ("output with truth", COLOURS[0]),
        "truth_superposition": ("truth with superposition", "0.45"),
    }
    middles = (BINS[1:] + BINS[:-1]) / 2
    for ax, code in zip(axes, codes):
        for name, (label, colour) in lines.items():
            counts = part.arrays[f"histogram/{code}/{name}"]
            style = {"lw": 1.1, "ls": "--"} if name == "truth_superposition" else {"lw": 1.6}
            ax.step(middles, counts, where="mid", color=colour, label=label, **style)
        tidy(ax)
        ax.set_title(CODE_LABELS[code], fontsize=10)
        ax.set_xlabel("cosine, mean ID output taken off", fontsize=SMALL)
        ax.set_xlim(-0.5, 1)
    axes[0].set_ylabel(f"OOD cells of {seeds_note(row['seed'] for row in part.rows)}", fontsize=SMALL)
    axes[-1].legend(frameon=False, fontsize=7, loc="upper right")
    return figure


def first_effects(part: PartResult) -> FirstEffects:
    """Medians of the centred output side."""
    found: dict[str, dict[int, float]] = {}
    for row in part.rows:
        if row["side"] == "output" and row["centred"]:
            found.setdefault(f"C2.{row['code']}", {})[row["seed"]] = row["energy"]
            found.setdefault(f"C2.{row['code']}_nearer", {})[row["seed"]] = row["nearer"]
    return found


def effects(part: PartResult) -> Effects:
    """Free weights against their controls, and equal weights, per code."""
    found: dict[str, Evidence] = {}
    equal = {
        (row["code"], row["seed"]): row["energy"] for row in part.rows if row["side"] == "output" and row["centred"]
    }
    for code in CODES:
        groups = grouped([row for row in part.table("free_weights") if row["code"] == code])
        numbers: dict[str, Callable[[Rows], float]] = {"free": lambda rows: rows[0]["share"]}
        if code in TWO_CODES:
            numbers["controls"] = lambda rows: (
                rows[0]["share"] - max(rows[0][control] for control in ("truth", "unrelated", "trained"))
            )
            numbers["equal"] = lambda rows: equal[rows[0]["code"], rows[0]["seed"]]
        for name, number in numbers.items():
            found[f"C2.{code}_{name}"] = evidence(groups, number, runs=lambda rows: rows)
    return found


STUDY = Study(
    key="superpositions",
    title="outputs for unseen pairs against sums of remembered ones",
    results=("R2",),
    claims=("C2",),
    version=2,
    configs=lambda profile, seeds: list(wanted(profile, seeds).values()),
    rows=rows,
    plot=plot,
    effects=effects,
    first_effects=first_effects,
)
