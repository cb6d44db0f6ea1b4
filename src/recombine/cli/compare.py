"""The command `recombine compare`: compare remedies on scenes and splits under one budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recombine.cli.command import command
from recombine.cli.options import Address, AnyVersion, Device, Engine, Json, MaxParallel, comma_separated
from recombine.cli.output import say, show_json, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recombine.diagnostics.request import DiagnosisRequest
    from recombine.runs.config import RunConfig
    from recombine.runs.store import Store
    from recombine.studies.compare.running import Comparison, Plan

PAGE_MB = 50.0
FEWEST_CELLS = 4  # images per model of a page that would be too large; below that, models are left out


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("compare")(compare)


@command
def compare(
    suite: Annotated[str, typer.Option("--suite", help="Suite: mini (for a quick trial), small or full.")] = "small",
    remedies: Annotated[
        str, typer.Option("--remedies", help="Comma-separated remedies; default: those of the suite.")
    ] = "",
    scenes: Annotated[str, typer.Option("--scenes", help="Comma-separated scenes; default: those of the suite.")] = "",
    splits: Annotated[
        str,
        typer.Option(
            "--splits",
            help="Comma-separated splits: random, comb, diagonal, connected, range, element, orthotopic, levels, "
            "disconnected, data.",
        ),
    ] = "",
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            help="[NAME=]PATH of your own scene: a data set, or a YAML file with a scene. It replaces those of the "
            "suite, except for the ones that --scenes selects. Can be repeated.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="Number of seeds; default: that of the suite.", min=1)
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for rows, tables, figures and runs.")] = Path("comparison"),
    engine: Engine = "processes",
    address: Address = None,
    device: Device = "auto",
    max_parallel: MaxParallel = None,
    any_version: AnyVersion = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check every remedy and estimate the time, without training.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train every remedy on every scene and split, with the same budget and the same number of tuning trials.

    Finished runs are kept, so the same command resumes an interrupted comparison. Exits with code 1 if a run failed.

    \b
    Examples:
      recombine compare --suite small --dry-run
      recombine compare --suite mini --remedies cnn,additive --out comparison
      recombine compare --data pictures/ --splits random,range --seeds 1
    """
    from recombine import sweeps
    from recombine.core.devices import resolve
    from recombine.studies.compare import running
    from recombine.studies.compare.own_scenes import own_scenes
    from recombine.studies.compare.suite import chosen
    from recombine.studies.compare.suite import suite as named
    from recombine.sweeps.engines.kept import KeptEngine
    from recombine.sweeps.journal import LOGS

    words = {"remedies": remedies, "scenes": scenes, "splits": splits}
    selected = {name: comma_separated([text]) for name, text in words.items()}
    wanted = chosen(named(suite), **selected, seeds=seeds, own=own_scenes(data or []))
    options = sweeps.EngineOptions(max_parallel, address=address)
    resolve(device)
    sweeps.check_engine(engine, options)
    if dry_run:
        _show_plan(running.plan(wanted, out, workers=_workers(engine, max_parallel)), as_json)
        return

    started: list[KeptEngine] = []  # by the first sweep; its workers serve all others

    def train(configs: Sequence[RunConfig], store: Store, request: DiagnosisRequest | None) -> dict[str, str]:
        if not started:
            started.append(KeptEngine(engine, replace(options, logs=store.root / LOGS)))
        result = sweeps.run(configs, store, diagnose=request, engine=started[0], device=device, any_version=any_version)
        return {failure.run: failure.error for failure in (*result.failed, *result.undiagnosed)}

    try:
        found = running.compare(wanted, out, train=train, say=lambda text: say(text, err=True))
    finally:
        for one in started:
            one.stop()
    page = _page(found)
    if as_json:
        show_json({**found.to_json(), "page": None if page is None else str(page)})
    else:
        _show(found, page)
    if found.failed:
        raise typer.Exit(1)


def _workers(engine: str, wanted: int | None) -> int:
    """How many jobs run at a time, for an estimate."""
    from recombine.sweeps.engines.choice import workers_for_estimate
    from recombine.sweeps.engines.engine import EngineOptions

    return workers_for_estimate(engine, EngineOptions(wanted))


def _page(found: Comparison) -> Path | None:
    """Write the interactive page with one seed of each remedy, scene and split."""
    from recombine.core.files import write_text
    from recombine.report.collect import Table, collect
    from recombine.report.page import build
    from recombine.studies.compare.tables import shares

    path = found.out / "page.html"
    if not found.shown:
        path.unlink(missing_ok=True)
        return None
    names = {row["run"]: f"{row['remedy']}, {row['scene']}, {row['split']}" for row in found.rows}
    shown, cells = list(found.shown), found.cells
    while shown:
        collected = collect([f"{names[run]}={found.out / 'runs' / run}" for run in shown], runs=found.out / "runs")
        collected.tables += [Table("share of right unseen cells", shares(found.rows)), Table("ranks", found.ranked)]
        collected.figures |= {(found.out.name, figure.name): figure.read_bytes() for figure in found.figures}
        page = build(collected, kernel=False, units=0, cells=cells)
        if page.megabytes <= PAGE_MB:
            write_text(path, page.html)
            return path
        if cells > FEWEST_CELLS:
            cells = max(FEWEST_CELLS, cells // 2)
        else:
            shown = shown[: len(shown) // 2]
    path.unlink(missing_ok=True)
    say(f"Wrote no page, because even one model and the figures exceed {PAGE_MB:g} MB.", err=True)
    return None


def _show_plan(plan: Plan, as_json: bool) -> None:
    from recombine.sweeps.status import clock

    if as_json:
        show_json(plan.to_json())
        return
    for row in plan.left_out:
        say(f"{row['status']}: {row['remedy']} on {row['scene']}, {row['split']}: {row['reason']}")
    for what, why in plan.failing.items():
        say(f"raises: {what}: {why}")
    say(
        f"{len(plan.entries)} combinations of remedy, scene and split, {len(plan.left_out)} left out. {plan.trials} "
        f"trials and {plan.finals} runs, {plan.stored} of them already stored. Training the rest takes about "
        f"{clock(plan.alone)} in one process, or {clock(plan.seconds)} on {plan.workers} workers ({plan.speedup:.1f} "
        "times as fast), without diagnoses."
    )


def _show(found: Comparison, page: Path | None) -> None:
    from recombine.studies.compare.tables import summary

    show_table(summary(found.rows), ["remedy", "scene", "split", "seeds", "right", "ood_error", "verdicts", "failing"])
    say(f"\nWrote rows, tables and figures to {found.out}." + ("" if page is None else f" Open {page} in a browser."))
    names = {row["run"]: f"{row['remedy']} on {row['scene']}, {row['split']}, seed {row['seed']}" for row in found.rows}
    for run, why in found.failed.items():
        say(f"failed: {names.get(run, run)}: {why}", err=True)
