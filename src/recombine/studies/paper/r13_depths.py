"""R13 and R14: how outputs for unseen pairs and layers change with depth, in CNNs and MLPs. Decides C14."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.core.statistics import median
from recombine.diagnostics.findings import PartResult
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import CODE_LABELS, TWO_CODES, inner_cnn, mlp, published_mlp
from recombine.studies.framework.figure_style import SMALL, by_layer, cells_to_show, seeds_note, task_of, unseen_rows
from recombine.studies.framework.layer_figures import curves, volume_maps
from recombine.studies.framework.layers import (
    DIFFERENCES,
    REQUEST,
    layer_rows,
    loss_of_factorization,
    volumes,
    warp_row,
)
from recombine.studies.framework.learning import (
    Rows,
    all_lengths,
    evidence,
    grouped,
    ladders,
    last_steps,
    learning,
    until_learnt,
)
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import FirstEffects, Runs, Study, record_undiagnosed
from recombine.studies.framework.verdicts import Effects

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DECODERS = {"cnn": "CNN", "mlp": "MLP"}
SHOWN = 6
SCORES = {
    "probe_in_sample": "R² of probes, in sample",
    "probe_id_to_ood": "R² of probes, ID → OOD",
    "factorization": "factorization F",
}


Label = tuple[str, str, int, int]  # decoder ("published": MLPs trained as in the paper), code, depth, seed


def _fixed(profile: Profile, seeds: Sequence[int]) -> dict[Label, RunConfig]:
    """The runs that are known beforehand: CNNs, and MLPs as published."""
    kinds = {"cnn": (inner_cnn, profile.depths), "published": (published_mlp, profile.mlp_depths)}
    return {
        (decoder, code, depth, seed): make(profile, code, depth, seed)
        for decoder, (make, depths) in kinds.items()
        for code in TWO_CODES
        for depth in depths
        for seed in seeds
    }


def _ladders(runs: Runs, profile: Profile, seeds: Sequence[int]) -> dict[Label, list[RunConfig]]:
    """Networks of growing training length, up to the first that has learnt: CNNs and MLPs."""
    cnns = {label: config for label, config in _fixed(profile, seeds).items() if label[0] == "cnn"}
    return ladders(runs, cnns, profile.lengths) | {
        ("mlp", code, depth, seed): until_learnt(
            runs, profile.mlp_epochs[code], partial(mlp, profile, code, depth, seed)
        )
        for code in TWO_CODES
        for depth in profile.mlp_depths
        for seed in seeds
    }


def wanted(profile: Profile, seeds: Sequence[int]) -> list[RunConfig]:
    """All runs that are known beforehand, and the first run of every ladder."""
    first = [
        mlp(profile, code, depth, seed, profile.mlp_epochs[code][0])
        for code in TWO_CODES
        for depth in profile.mlp_depths
        for seed in seeds
    ]
    return [*_fixed(profile, seeds).values(), *first]


def more(profile: Profile, seeds: Sequence[int], runs: Runs) -> list[RunConfig]:
    """All runs of the ladders that are required so far."""
    return all_lengths(_ladders(runs, profile, seeds))


def more_expected(profile: Profile, seeds: Sequence[int]) -> list[RunConfig]:
    """The second run of every other ladder. About half of the ladders need it."""
    return [
        mlp(profile, code, depth, seed, profile.mlp_epochs[code][1])
        for code in TWO_CODES
        for depth in profile.mlp_depths
        for seed in seeds[::2]
    ]


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """One row per layer and one row of warps per run, and pictures and maps of the first seed."""
    from recombine.scoring.outputs import render

    found = PartResult("depths", {"layers": [], "warp": []}, facts={"configs": {}, "depth": profile.standard_depth})
    learnt = last_steps(_ladders(runs, profile, seeds))
    for (decoder, code, depth, seed), run in runs.labelled({**_fixed(profile, seeds), **learnt}):
        with record_undiagnosed(found, f"run {run.id} ({decoder}, {code}, depth {depth}, seed {seed})"):
            diagnosis = runs.diagnosis(run)
            about = {"decoder": decoder, "code": code, "depth": depth, "seed": seed, "run": run.id}
            found.tables["layers"] += [{**about, **row} for row in layer_rows(diagnosis)]
            by_differences = {"warp_median_differences": warp_row(diagnosis, DIFFERENCES)["warp_median"]}
            placed = {"ood_localization": run.summary["ood_localization"]}
            found.tables["warp"].append({**about, **learning(run), **placed, **warp_row(diagnosis), **by_differences})
            if decoder == "published":
                continue
            key = f"{decoder}/{code}/{depth}"
            if key not in found.facts["configs"]:
                found.facts["configs"][key] = run.config.to_dict()
                cells = cells_to_show(run.task.holdout, SHOWN)
                truth, outputs = render(run.model, run.task, cells)
                found.arrays.update({f"cells/{code}": cells.numpy(), f"truth/{code}": truth, f"outputs/{key}": outputs})
                found.arrays.update({f"volume/{key}/{n}": values for n, values in volumes(diagnosis).items()})
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """Draw samples by depth, maps by depth and layer, and curves."""
    figures: dict[str, Figure] = {}
    for decoder, name in DECODERS.items():
        for code in TWO_CODES:
            depths = _depths(part, decoder, code)
            if depths:
                figures[f"R13_samples_{decoder}_{code}"] = _samples(part, decoder, code, depths)
                figures[f"R14_volume_{decoder}_{code}"] = volume_maps(
                    {f"depth {d}": by_layer(part, f"volume/{decoder}/{code}/{d}/") for d in depths},
                    lambda _, key=f"{decoder}/{code}/{depths[0]}": task_of(part.facts["configs"][key]).holdout,
                    f"log₁₀ dv by layer (derivatives), {name}s with the {CODE_LABELS[code]}, one seed; hold-out in red",
                )
        figures[f"R14_layers_{decoder}"] = _curves(part, decoder)
    return figures


def _depths(part: PartResult, decoder: str, code: str) -> list[int]:
    keys = [key.split("/") for key in part.facts["configs"]]
    return sorted(int(depth) for kind, of, depth in keys if (kind, of) == (decoder, code))


def _samples(part: PartResult, decoder: str, code: str, depths: list[int]) -> Figure:
    task = task_of(part.facts["configs"][f"{decoder}/{code}/{depths[0]}"])
    lines = {"truth": part.arrays[f"truth/{code}"]}
    for depth in depths:
        group = [r for r in part.table("warp") if (r["decoder"], r["code"], r["depth"]) == (decoder, code, depth)]
        placed = [100 * row["ood_localization"] for row in group]
        lines[f"depth {depth}\n{np.mean(placed):.0f} % placed"] = part.arrays[f"outputs/{decoder}/{code}/{depth}"]
    note = (
        f"{DECODERS[decoder]}, {CODE_LABELS[code]}: unseen pairs (x, y), outputs of one seed\n% in the correct place: "
        f"mean of {seeds_note(row['seed'] for row in part.rows)}"
    )
    return unseen_rows(lines, task.space, part.arrays[f"cells/{code}"], note)


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
    for ax in axes[0]:  # set last: the column shares its limits, and setting them disables autoscaling
        bottom, top = ax.get_ylim()
        ax.set_ylim(min(max(bottom, -1.05), 0.9), min(max(top, 1.005), 1.03))
    axes[0, 0].legend(frameon=False, fontsize=7, loc="lower left")
    seeds = seeds_note(row["seed"] for row in part.rows)
    figure.suptitle(
        f"{DECODERS[decoder]}s of several depths by layer; mean and range of {seeds}; R² clipped below −1", fontsize=10
    )
    return figure


def _shared(part: PartResult) -> list[int]:
    """Depths that both CNNs and MLPs have."""
    found = [{row["depth"] for row in part.table("warp") if row["decoder"] == decoder} for decoder in DECODERS]
    return sorted(found[0] & found[1])


def effects(part: PartResult) -> Effects:
    """Warps and losses at the depths that CNNs and MLPs share."""
    shared = _shared(part)
    table = [row for row in part.table("warp") if row["depth"] in shared]

    def warp(rows: Rows, decoder: str, code: str) -> float:
        return median([row["warp_median"] for row in rows if (row["decoder"], row["code"]) == (decoder, code)])

    def opposite(decoder: str, code: str) -> Callable[[Rows], float]:
        def number(rows: Rows) -> float:
            pair = warp(rows, "cnn", code), warp(rows, decoder, code)
            return math.copysign(min(map(abs, pair)), -pair[0] * pair[1])

        return number

    def lost(rows: Rows) -> float:
        seed = rows[0]["seed"]
        losses = {
            decoder: [_loss(part, decoder, code, depth, seed) for code in TWO_CODES for depth in shared]
            for decoder in DECODERS
        }
        return float(np.mean(losses["mlp"]) - np.mean(losses["cnn"]))

    def complete(rows: Rows) -> bool:
        return len(rows) == 3 * len(TWO_CODES) * len(shared)

    groups = grouped(table, complete)
    found = {"C14.factorization": evidence(groups, lost, runs=_trained(TWO_CODES))}
    for code in TWO_CODES:
        found[f"C14.opposite_{code}"] = evidence(groups, opposite("mlp", code), runs=_trained((code,)))
        found[f"C14.published_{code}"] = evidence(groups, opposite("published", code), runs=lambda rows: [])
    return found


def _trained(codes: Sequence[str]) -> Callable[[Rows], Rows]:
    """The networks that must have learnt: all except those as published."""
    return lambda rows: [row for row in rows if row["decoder"] != "published" and row["code"] in codes]


def first_effects(part: PartResult) -> FirstEffects:
    """Warps at the standard depth; losses at the depths that CNNs and MLPs as published share."""
    found: dict[str, dict[int, float]] = {}
    shared = _shared(part)
    for seed in sorted({row["seed"] for row in part.rows}):
        warps = {
            (row["decoder"], row["code"]): row["warp"]
            for row in part.table("warp")
            if row["seed"] == seed and row["depth"] == _nearest(shared, part.facts["depth"])
        }
        for code in TWO_CODES:
            if ("cnn", code) in warps and ("published", code) in warps:
                pair = warps["cnn", code], warps["published", code]
                size = min(map(abs, pair))
                found.setdefault(f"C14.opposite_{code}", {})[seed] = size if pair[0] * pair[1] < 0 else -size
        lost = {
            decoder: [_loss(part, decoder, c, d, seed) for c in TWO_CODES for d in shared]
            for decoder in ("cnn", "published")
        }
        found.setdefault("C14.factorization", {})[seed] = float(np.mean(lost["published"]) - np.mean(lost["cnn"]))
    return found


def _nearest(depths: list[int], depth: int) -> int | None:
    return min(depths, key=lambda d: abs(d - depth), default=None)


def _loss(part: PartResult, decoder: str, code: str, depth: int, seed: int) -> float:
    def mine(row: dict[str, Any]) -> bool:
        return (row["decoder"], row["code"], row["depth"], row["seed"]) == (decoder, code, depth, seed)

    group = [row for row in part.rows if mine(row)]
    return loss_of_factorization(group)


STUDY = Study(
    key="depths",
    title="outputs and layers by depth, CNNs and MLPs",
    results=("R13", "R14"),
    claims=("C14",),
    version=5,
    seeds={"standard": 8},
    wanted=wanted,
    request=REQUEST,
    more=more,
    more_expected=more_expected,
    rows=rows,
    plot=plot,
    effects=effects,
    first_effects=first_effects,
)
