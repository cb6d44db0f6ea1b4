"""R6: the volume element over the factor plane across the layers of a CNN. Decides C6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from recombine.diagnostics.findings import PartResult
from recombine.plotting.style import COLOURS
from recombine.runs.config import RunConfig
from recombine.studies.framework.baseline import CODE_LABELS, TWO_CODES, two_widths
from recombine.studies.framework.figure_style import by_layer, task_of
from recombine.studies.framework.layer_figures import volume_maps
from recombine.studies.framework.layers import DIFFERENCES, EXACT, REQUEST, volumes, warp_row
from recombine.studies.framework.learning import all_lengths, evidence, grouped, ladders, last_steps, learning
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import FirstEffects, Runs, Study, record_undiagnosed
from recombine.studies.framework.verdicts import Effects
from recombine.studies.framework.width_check import TABLE, at_width, width_check

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ESTIMATORS = {"warp": ("derivatives", COLOURS[0]), "differences": ("finite differences", COLOURS[1])}
METHODS = {"warp": EXACT, "differences": DIFFERENCES}  # table → how its metric tensors are computed


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[int, str, int, int], RunConfig]:
    """Map (width, code, depth, seed) to a CNN of the standard depth, at the full width and at the inner one."""
    depths = [profile.standard_depth]
    return two_widths(profile, seeds, depths, depths, seeds)


def more(profile: Profile, seeds: Sequence[int], runs: Runs) -> list[RunConfig]:
    """The same networks trained for longer, until they have learnt their training pairs."""
    return all_lengths(ladders(runs, wanted(profile, seeds), profile.lengths))


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Deviation of each run's output volume element from that of the true images, and maps of the first seed."""
    facts = {"configs": {}, "depth": profile.standard_depth, "width": profile.width}
    found = PartResult("volume", {table: [] for table in METHODS}, facts=facts)
    ends = last_steps(ladders(runs, wanted(profile, seeds), profile.lengths))
    for (width, code, _, seed), run in runs.labelled(ends):
        with record_undiagnosed(found, f"run {run.id} ({code}, width {width}, seed {seed})"):
            diagnosis = runs.diagnosis(run)
            about = {"code": code, "width": width, "seed": seed, "run": run.id, **learning(run)}
            for table, method in METHODS.items():
                found.tables[table].append({**about, **warp_row(diagnosis, method)})
            if code not in found.facts["configs"] and width == profile.width:
                found.facts["configs"][code] = run.config.to_dict()
                found.arrays.update(
                    {f"volume/{code}/{number}": values for number, values in volumes(diagnosis).items()}
                )
    found.tables[TABLE] = width_check(found, _effects, narrow=profile.inner_width, wide=profile.width)
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """Draw maps of the volume element by layer, with one row per code."""
    configs = {CODE_LABELS[code]: config for code, config in part.facts["configs"].items()}
    if not configs:
        return {}
    lines = {CODE_LABELS[code]: by_layer(part, f"volume/{code}/") for code in part.facts["configs"]}
    title = f"log₁₀ dv by layer (derivatives), CNN of depth {part.facts['depth']}, one seed; hold-out in red"
    maps = volume_maps(lines, lambda label: task_of(configs[label]).holdout, title)
    return {"R06_volume": maps, "R06_estimators": _estimators(part)}


def _estimators(part: PartResult) -> Figure:
    """Draw the distortion of every network inside and outside the hold-out, by both ways of computing dv."""
    from recombine.plotting.style import new_figure

    figure = new_figure(3.6 * len(TWO_CODES), 3.7)
    widths = sorted({row["width"] for row in part.rows})
    for ax, code in zip(figure.subplots(1, len(TWO_CODES), sharex=True, sharey=True), TWO_CODES):
        for table, (label, colour) in ESTIMATORS.items():
            for width, marker in zip(widths, "os"):
                chosen = [r for r in part.table(table) if (r["code"], r["width"]) == (code, width)]
                inside, outside = ([r[f"distortion_{split}_median"] for r in chosen] for split in ("ood", "id"))
                ax.plot(outside, inside, marker, color=colour, ms=4, alpha=0.7, label=f"{label}, width {width}")
        ax.axline((0.1, 0.1), (1, 1), color="0.6", lw=0.8, zorder=0)
        ax.set(xscale="log", yscale="log", title=CODE_LABELS[code], xlabel="trained cells (decades)")
    figure.axes[0].set_ylabel("held-out cells (decades)")
    figure.axes[1].legend(frameon=False, fontsize=7, loc="lower left")
    figure.suptitle(
        "Distortion: median |log₁₀ dv − log₁₀ dv of the true images|. One mark per network; the line is equality",
        fontsize=10,
    )
    return figure


def effects(part: PartResult) -> Effects:
    """Median distortion of OOD cells minus that of ID cells."""
    return _effects(at_width(part, part.facts["width"]))


def _effects(part: PartResult) -> Effects:
    """The same for networks of one width."""
    return {
        f"C6.{code}{suffix}": evidence(
            grouped([row for row in part.table(table) if row["code"] == code]),
            lambda rows: rows[0]["distortion_ood_median"] - rows[0]["distortion_id_median"],
            runs=lambda rows: rows,
        )
        for table, suffix in (("warp", ""), ("differences", "_differences"))
        for code in TWO_CODES
    }


def first_effects(part: PartResult) -> FirstEffects:
    """The same with means."""
    found: dict[str, dict[int, float]] = {}
    for row in at_width(part, part.facts["width"]).rows:
        found.setdefault(f"C6.{row['code']}", {})[row["seed"]] = row["distortion_ood"] - row["distortion_id"]
    return found


STUDY = Study(
    key="volume",
    title="volume element by layer of CNNs",
    results=("R6",),
    claims=("C6",),
    version=5,
    seeds={"standard": 16},
    wanted=wanted,
    more=more,
    request=REQUEST,
    rows=rows,
    plot=plot,
    effects=effects,
    first_effects=first_effects,
)
