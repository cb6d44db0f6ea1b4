"""R2: tests whether outputs for unseen pairs are sums of training outputs, for four codes. Decides C2.

The *output side* of the test adds training outputs. The *input side* uses the outputs of mean codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.request import DiagnosisRequest
from recombine.plotting.style import COLOURS
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import CODE_LABELS, CODES, TWO_CODES, cnn
from recombine.studies.framework.figure_style import (
    SMALL,
    seeds_note,
    task_of,
    tidy,
    unseen_rows,
)
from recombine.studies.framework.learning import Rows, evidence, grouped, learning
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import FirstEffects, Runs, Study, record_undiagnosed
from recombine.studies.framework.verdicts import Effects, Evidence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REQUEST = DiagnosisRequest(parts=("superposition", "free_weights"))
BINS = np.linspace(-1, 1, 41)


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Medians over the OOD cells of every run and side, histograms of the cosines, and pictures of the first seed."""
    found = PartResult("superpositions", {"medians": [], "free_weights": []}, facts={"configs": {}})
    for (code, seed), run in runs.labelled(wanted(profile, seeds)):
        with record_undiagnosed(found, f"run {run.id} ({code}, seed {seed})"):
            diagnosis = runs.diagnosis(run)
            about = {"code": code, "seed": seed, "run": run.id}
            tests = diagnosis["superposition"]
            found.tables["medians"] += [{**about, **row} for row in tests.table("summary")]
            [free] = diagnosis["free_weights"].table("summary")
            found.tables["free_weights"].append({**about, **learning(run), **free})
            if code not in TWO_CODES:
                continue
            _add_histograms(found, code, tests)
            if code not in found.facts["configs"]:
                found.facts["configs"][code] = run.config.to_dict()
                _add_pictures(found, code, diagnosis)
    return found


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, int], RunConfig]:
    """Map (code, seed) to a CNN of the standard depth with the centre held out."""
    return {(code, seed): cnn(profile, code, profile.standard_depth, seed) for code in CODES for seed in seeds}


def _add_histograms(found: PartResult, code: str, tests: PartResult) -> None:
    rows = [row for row in tests.table("cells") if row["side"] == "output" and row["centred"]]
    for name in ("cosine", "cosine_truth", "truth_superposition"):
        values = np.array([row[name] for row in rows])
        counts = np.histogram(values[np.isfinite(values)], bins=BINS)[0]
        key = f"histogram/{code}/{name}"
        found.arrays[key] = found.arrays.get(key, 0) + counts


def _add_pictures(found: PartResult, code: str, diagnosis: Diagnosis) -> None:
    """Add pictures of both sides, without subtracting the mean."""
    part = diagnosis["superposition"]
    pictures = part.by_layer("pictures")
    for name in ("cells", "truth", "output", "superposition", "parts"):
        found.arrays[f"{name}/{code}/output"] = pictures[name]
    alone = part.by_layer("mean codes")
    if not alone:  # the mean of ramp codes is itself the code of another position
        return
    cells = pictures["cells"]
    where = diagnosis.space.coordinates(torch.from_numpy(cells)).numpy()
    parts = np.stack([alone[factor][where[:, axis]] for axis, factor in enumerate(diagnosis.space.names)], axis=1)
    scales = {r["cell"]: r["scale"] for r in part.table("cells") if r["side"] == "input" and not r["centred"]}
    scale = np.array([scales[int(cell)] for cell in cells], dtype=np.float32)[:, None, None]
    arrays = {**pictures, "parts": parts, "superposition": scale * parts.sum(1)}
    shown = ("cells", "truth", "output", "superposition", "parts")
    found.arrays.update({f"{name}/{code}/input": arrays[name].copy() for name in shown})


def plot(part: PartResult) -> dict[str, Figure]:
    """Draw the panels of every code and side, and the cosines of all cells and seeds."""
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
        figures[f"R02_{code}_{side}_side"] = unseen_rows(
            lines,
            task.space,
            part.arrays[f"cells/{key}"],
            f"{CODE_LABELS[code]}, {side} side, one seed; unseen pairs (x, y)\nboth parts are scaled to equal peaks",
        )
    figures["R02_cosines"] = _cosines(part)
    return figures


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
        ax.set_xlabel("cosine, mean ID output subtracted", fontsize=SMALL)
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
    """Free weights compared with their controls, and equal weights, for every code."""
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
    title="outputs for unseen pairs compared with sums of memorized outputs",
    results=("R2",),
    claims=("C2",),
    version=3,
    seeds={"standard": 8},
    wanted=wanted,
    request=REQUEST,
    rows=rows,
    plot=plot,
    effects=effects,
    first_effects=first_effects,
)
