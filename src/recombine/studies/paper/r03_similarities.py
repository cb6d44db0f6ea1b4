"""R3 and R11: the similarity of outputs for unseen pairs to training outputs, compared with K_bin. Decides C3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.numerics.kernels import SIMILARITIES, binary_factorized_kernel
from recombine.diagnostics.request import DiagnosisRequest
from recombine.plotting.style import SKY
from recombine.studies.framework.baseline import CODE_LABELS, TWO_CODES, two_codes
from recombine.studies.framework.figure_style import SMALL, seeds_note, task_of
from recombine.studies.framework.learning import Rows, evidence, grouped, learning
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import FirstEffects, Runs, Study, record_undiagnosed
from recombine.studies.framework.verdicts import Effects

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = {"cosine": "cosine", "l2": "L2 distance", "overlap": "pixel overlap"}
DIVIDER = SKY
REQUEST = DiagnosisRequest(parts=("kernels", "kernel_references"))


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Agreement of every run and similarity with K_bin, and the Gram matrices of the first seed."""
    found = PartResult("similarities", {"agreement": []}, facts={"configs": {}, "n_id": {}, "references": {}})
    for (code, seed), run in runs.labelled(two_codes(profile, seeds)):
        with record_undiagnosed(found, f"run {run.id} ({code}, seed {seed})"):
            diagnosis = runs.diagnosis(run)
            kernels = diagnosis["kernels"]
            about = {"code": code, "seed": seed, "run": run.id, **learning(run)}
            found.tables["agreement"] += [{**about, **row} for row in kernels.table("agreement")]
            if not found.facts["references"]:  # the same for all runs, which share scene and hold-out
                ends = diagnosis["kernel_references"].table("agreement")
                found.facts["references"] = {row["similarity"]: [row["right"], row["superposed"]] for row in ends}
            if code not in found.facts["configs"]:
                found.facts["configs"][code] = run.config.to_dict()
                found.facts["n_id"][code] = kernels.facts["n_id"]
                found.arrays[f"cells/{code}"] = kernels.arrays["cells"]
                for name, matrix in kernels.by_layer("gram").items():
                    found.arrays[f"gram/{code}/{name}"] = matrix.astype(np.float16)  # used only in figures
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """R3: the OOD × ID block beside K_bin. R11: the whole matrices."""
    codes = list(part.facts["configs"])
    return {"R03_similarity": _blocks(part, codes), "R11_gram_matrices": _matrices(part, codes)}


def _blocks(part: PartResult, codes: list[str]) -> Figure:
    """OOD × ID pixel overlap per code, and K_bin."""
    from recombine.plotting.style import new_figure

    figure = new_figure(3.6 * (len(codes) + 1), 3.0)
    axes = figure.subplots(1, len(codes) + 1)
    for ax, code in zip(axes, codes):
        n_id = part.facts["n_id"][code]
        block = part.arrays[f"gram/{code}/overlap"][n_id:, :n_id].astype(np.float32)
        picture = ax.imshow(block, cmap="magma", interpolation="antialiased", aspect="auto", vmin=0,
                            vmax=float(np.nanquantile(block, 0.99)))  # fmt: skip
        figure.colorbar(picture, ax=ax, shrink=0.8).set_label("overlap, clipped at its 99 % quantile", fontsize=SMALL)
        ax.set_title(f"{CODE_LABELS[code]}, pixel overlap\n{_agreed(part, code, 'overlap')}", fontsize=9)
    code = codes[0]
    n_id, cells = part.facts["n_id"][code], torch.from_numpy(part.arrays[f"cells/{code}"])
    space = task_of(part.facts["configs"][code]).space
    shared = binary_factorized_kernel(space, cells[n_id:], cells[:n_id]).numpy()
    picture = axes[-1].imshow(shared, cmap="magma", interpolation="antialiased", aspect="auto", vmin=0, vmax=1)
    figure.colorbar(picture, ax=axes[-1], shrink=0.8).set_label("K_bin", fontsize=SMALL)
    axes[-1].set_title("K_bin: shares x or shares y", fontsize=9)
    for ax in axes:
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel(f"{n_id} ID cells", fontsize=SMALL)
        ax.set_ylabel(f"{len(cells) - n_id} OOD cells", fontsize=SMALL)
    figure.supxlabel(f"matrices of one seed, r: mean and range of {_seeds(part)}", fontsize=SMALL)
    return figure


def _agreed(part: PartResult, code: str, similarity: str) -> str:
    found = [row["correlation"] for row in part.rows if row["code"] == code and row["similarity"] == similarity]
    return f"r with K_bin = {np.mean(found):.2f} [{min(found):.2f}, {max(found):.2f}]"


def _seeds(part: PartResult) -> str:
    return seeds_note(row["seed"] for row in part.rows)


def _matrices(part: PartResult, codes: list[str]) -> Figure:
    from recombine.plotting.style import new_figure

    figure = new_figure(3.4 * len(SIMILARITIES), 3.3 * len(codes) + 0.3)
    axes = figure.subplots(len(codes), len(SIMILARITIES), squeeze=False)
    for line, code in zip(axes, codes):
        for ax, similarity in zip(line, SIMILARITIES):
            matrix = part.arrays[f"gram/{code}/{similarity}"].astype(np.float32)
            low, high = np.nanquantile(matrix, [0.01, 0.99])
            colours = "magma_r" if similarity == "l2" else "magma"
            picture = ax.imshow(matrix, cmap=colours, vmin=low, vmax=high, interpolation="antialiased")
            figure.colorbar(picture, ax=ax, shrink=0.75).set_label(LABELS[similarity], fontsize=SMALL)
            _divide(ax, part.facts["n_id"][code], len(matrix))
            title = f"{CODE_LABELS[code]}, {LABELS[similarity]}"
            ax.set_title(f"{title}\nOOD × ID: {_agreed(part, code, similarity)}", fontsize=9)
    figure.supxlabel(
        f"all outputs, ID first; matrices of one seed, r: mean and range of {_seeds(part)} (of −distance for L2); "
        "scales clipped to 1–99 % quantiles",
        fontsize=SMALL,
    )
    return figure


def _divide(ax: Axes, n_id: int, count: int) -> None:
    """Outline the ID and OOD blocks."""
    for line in (ax.axhline, ax.axvline):
        line(n_id - 0.5, color=DIVIDER, lw=1.0)
    middles = [n_id / 2, (n_id + count) / 2]
    ax.set_xticks(middles, ["ID", "OOD"], fontsize=SMALL)
    ax.set_yticks(middles, ["ID", "OOD"], rotation=90, va="center", fontsize=SMALL)
    ax.tick_params(length=0)


def first_effects(part: PartResult) -> FirstEffects:
    """Evidence from the cosine similarity."""
    by_code: dict[str, dict[int, dict[str, Any]]] = {code: {} for code in TWO_CODES}
    for row in part.rows:
        if row["similarity"] == "cosine":
            by_code[row["code"]][row["seed"]] = row
    bump, ramp = by_code["bump"], by_code["ramp"]
    return {
        "C3.agrees": {seed: row["correlation"] - row["null_high"] for seed, row in bump.items()},
        "C3.more": {s: bump[s]["correlation"] - ramp[s]["correlation"] for s in bump if s in ramp},
    }


def effects(part: PartResult) -> Effects:
    """Agreement on a scale from correct outputs (0) to perfect superpositions (1)."""

    def agreed(rows: Rows, code: str, similarity: str = "overlap") -> float:
        right, perfect = part.facts["references"][similarity]
        [row] = [row for row in rows if (row["code"], row["similarity"]) == (code, similarity)]
        return (row["correlation"] - right) / (perfect - right)

    both = grouped(part.rows, lambda rows: {row["code"] for row in rows} == set(TWO_CODES))
    bump = grouped([row for row in part.rows if row["code"] == "bump"])
    numbers: dict[str, tuple[dict[int, Rows], Callable[[Rows], float]]] = {
        "C3.agrees": (bump, lambda rows: agreed(rows, "bump")),
        "C3.more": (both, lambda rows: agreed(rows, "bump") - agreed(rows, "ramp")),
        "C3.cosine": (bump, lambda rows: agreed(rows, "bump", "cosine")),
    }
    return {name: evidence(groups, number, runs=lambda rows: rows) for name, (groups, number) in numbers.items()}


STUDY = Study(
    key="similarities",
    title="similarity of outputs for unseen and trained pairs, compared with K_bin",
    results=("R3", "R11"),
    claims=("C3",),
    version=3,
    seeds={"standard": 8},
    wanted=two_codes,
    request=REQUEST,
    rows=rows,
    plot=plot,
    effects=effects,
    first_effects=first_effects,
)
