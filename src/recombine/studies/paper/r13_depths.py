"""R13 and R14: how unseen outputs and layers change with depth, for CNNs and MLPs. Decides C14."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.diagnostics.findings import PartResult
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import CODE_LABELS, TWO_CODES, cnn, mlp
from recombine.studies.framework.figure_style import SMALL, by_layer, picture_rows, seeds_note, spread_cells, task_of
from recombine.studies.framework.layerwise import curves, look, loss_of_factorization, volume_maps
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Effects, Runs, Study, record_undiagnosed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DECODERS = {"cnn": "CNN", "mlp": "MLP"}
SHOWN = 6
SCORES = {
    "probe_in_sample": "R² of probes, in sample",
    "probe_id_to_ood": "R² of probes, ID → OOD",
    "factorization": "factorization F",
}


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, str, int, int], RunConfig]:
    """(decoder, code, depth, seed) → run."""
    depths = {"cnn": (cnn, profile.depths), "mlp": (mlp, profile.mlp_depths)}
    return {
        (decoder, code, depth, seed): make(profile, code, depth, seed)
        for decoder, (make, some) in depths.items()
        for code in TWO_CODES
        for depth in some
        for seed in seeds
    }


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """A row per layer and one of warps per run; pictures and maps of the first seed."""
    from recombine.scoring.outputs import render

    found = PartResult("depths", {"layers": [], "warp": []}, facts={"configs": {}, "depth": profile.standard_depth})
    for (decoder, code, depth, seed), run in runs.labelled(wanted(profile, seeds)):
        with record_undiagnosed(found, f"run {run.id} ({decoder}, {code}, depth {depth}, seed {seed})"):
            seen = look(run)
            about = {"decoder": decoder, "code": code, "depth": depth, "seed": seed, "run": run.id}
            found.tables["layers"] += [{**about, **row} for row in seen.rows]
            found.tables["warp"].append({**about, "ood_localization": run.summary["ood_localization"], **seen.warp})
            key = f"{decoder}/{code}/{depth}"
            if key not in found.facts["configs"]:
                found.facts["configs"][key] = run.config.to_dict()
                cells = spread_cells(run.task.holdout, SHOWN)
                truth, outputs = render(run.model, run.task, cells)
                found.arrays.update({f"cells/{code}": cells.numpy(), f"truth/{code}": truth, f"outputs/{key}": outputs})
                found.arrays.update({f"volume/{key}/{n}": values for n, values in seen.volumes.items()})
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """Samples by depth, maps by depth and layer, curves."""
    figures: dict[str, Figure] = {}
    for decoder, name in DECODERS.items():
        for code in TWO_CODES:
            depths = _depths(part, decoder, code)
            if depths:
                figures[f"R13_samples_{decoder}_{code}"] = _samples(part, decoder, code, depths)
                figures[f"R14_volume_{decoder}_{code}"] = volume_maps(
                    {f"depth {d}": by_layer(part, f"volume/{decoder}/{code}/{d}/") for d in depths},
                    lambda _, key=f"{decoder}/{code}/{depths[0]}": task_of(part.facts["configs"][key]).holdout,
                    f"log₁₀ dv by layer, {name}s with the {CODE_LABELS[code]}, one seed; hold-out in red",
                )
        figures[f"R14_layers_{decoder}"] = _curves(part, decoder)
    return figures


def _depths(part: PartResult, decoder: str, code: str) -> list[int]:
    keys = [key.split("/") for key in part.facts["configs"]]
    return sorted(int(depth) for kind, of, depth in keys if (kind, of) == (decoder, code))


def _samples(part: PartResult, decoder: str, code: str, depths: list[int]) -> Figure:
    import torch

    task = task_of(part.facts["configs"][f"{decoder}/{code}/{depths[0]}"])
    lines = {"truth": part.arrays[f"truth/{code}"]}
    for depth in depths:
        group = [r for r in part.table("warp") if (r["decoder"], r["code"], r["depth"]) == (decoder, code, depth)]
        placed = [100 * row["ood_localization"] for row in group]
        lines[f"depth {depth}\n{np.mean(placed):.0f} % placed"] = part.arrays[f"outputs/{decoder}/{code}/{depth}"]
    places = task.space.values(torch.from_numpy(part.arrays[f"cells/{code}"])).numpy()
    note = (
        f"{DECODERS[decoder]}, {CODE_LABELS[code]}: unseen pairs (x, y), outputs of one seed\n% in the right place: "
        f"mean of {seeds_note(row['seed'] for row in part.rows)}"
    )
    return picture_rows(lines, places, [True] * len(places), note)


def _curves(part: PartResult, decoder: str) -> Figure:
    from recombine.plotting.style import new_figure

    figure = new_figure(3.1 * len(SCORES), 2.6 * len(TWO_CODES) + 0.4)
    axes = figure.subplots(len(TWO_CODES), len(SCORES), squeeze=False, sharey="col")
    mine = [row for row in part.rows if row["decoder"] == decoder]
    for line, code in zip(axes, TWO_CODES):
        chosen = [row for row in mine if row["code"] == code]
        for ax, (column, label) in zip(line, SCORES.items()):
            curves(ax, chosen, column, sorted({row["depth"] for row in mine}))
            ax.set_title(label, fontsize=SMALL)
        line[0].set_ylabel(CODE_LABELS[code], fontsize=9)
    for ax in axes[0]:  # only now: limits hold for the whole column, and once set they no longer follow the curves
        bottom, top = ax.get_ylim()
        ax.set_ylim(min(max(bottom, -1.05), 0.9), min(max(top, 1.005), 1.03))
    axes[0, 0].legend(frameon=False, fontsize=7, loc="lower left")
    seeds = seeds_note(row["seed"] for row in part.rows)
    figure.suptitle(
        f"{DECODERS[decoder]}s of several depths by layer; mean and range of {seeds}; R² below −1 cut off", fontsize=10
    )
    return figure


def effects(part: PartResult) -> Effects:
    """Warps at the standard depth; losses at the depths that CNNs and MLPs share."""
    found: dict[str, dict[int, float]] = {}
    shared = [d for d in _depths(part, "cnn", "bump") if d in _depths(part, "mlp", "bump")]
    for seed in sorted({row["seed"] for row in part.rows}):
        warps = {
            (row["decoder"], row["code"]): row["warp"]
            for row in part.table("warp")
            if row["seed"] == seed and row["depth"] == _nearest(shared, part.facts["depth"])
        }
        for code in TWO_CODES:
            if ("cnn", code) in warps and ("mlp", code) in warps:
                pair = warps["cnn", code], warps["mlp", code]
                size = min(map(abs, pair))
                found.setdefault(f"C14.opposite_{code}", {})[seed] = size if pair[0] * pair[1] < 0 else -size
        lost = {decoder: [_loss(part, decoder, c, d, seed) for c in TWO_CODES for d in shared] for decoder in DECODERS}
        found.setdefault("C14.factorization", {})[seed] = float(np.mean(lost["mlp"]) - np.mean(lost["cnn"]))
    return found


def _nearest(depths: list[int], depth: int) -> int | None:
    return min(depths, key=lambda d: abs(d - depth), default=None)


def _loss(part: PartResult, decoder: str, code: str, depth: int, seed: int) -> float:
    def mine(row: dict[str, Any]) -> bool:
        return (row["decoder"], row["code"], row["depth"], row["seed"]) == (decoder, code, depth, seed)

    group = [row for row in part.rows if mine(row)]
    return loss_of_factorization(group) if group else float("nan")


STUDY = Study(
    key="depths",
    title="outputs and layers by depth, CNNs and MLPs",
    results=("R13", "R14"),
    claims=("C14",),
    version=1,
    configs=lambda profile, seeds: list(wanted(profile, seeds).values()),
    rows=rows,
    plot=plot,
    effects=effects,
)
