"""The commands `recombine runs list`, `show` and `rm`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recombine.cli.command import command
from recombine.cli.options import DryRun, Json, Out
from recombine.cli.output import headline, say, show_json, show_table

if TYPE_CHECKING:
    from recombine.runs.config import RunConfig
    from recombine.runs.status import Planned, RunStatus
    from recombine.runs.store import Store
    from recombine.runs.stored import StoredRun

MOST_METRICS = 4  # columns: the first metrics that some run has
MOST_SETTINGS = 4  # columns: the first settings in which runs differ, besides those that every row shows
SHOWN = {"decoder.kind", "decoder.depth", "decoder.width", "encoding.kind", "holdout.kind", "seed"}


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    group = typer.Typer(help="List, show or delete stored runs.", no_args_is_help=True, rich_markup_mode=None)
    group.command("list")(list_runs)
    group.command("show")(show_run)
    group.command("rm")(remove_runs)
    app.add_typer(group, name="runs")


@command
def list_runs(out: Out = Path("runs"), as_json: Json = False) -> None:
    """List all runs of a store with their status, main settings, the settings in which they differ, and scores.

    \b
    Example:
      recombine runs list --out runs
    """
    from recombine.runs.config import differing, flat
    from recombine.runs.damage import MOST_NAMED, damage_lines
    from recombine.runs.store import Store

    rows = Store(out).list()
    if as_json:
        show_json([row.to_json() for row in rows])
        return
    if not rows:
        say(f"There are no runs in {out}. Train one with `recombine train`.")
        return
    damaged = {row.id: row.status.reason for row in rows if row.status.damaged}
    shown = [row for row in rows if not row.status.damaged or len(damaged) <= MOST_NAMED]
    known = [column for column in score_columns() if any(column in row.summary for row in shown)][:MOST_METRICS]
    given = [flat(row.config, levels=3) for row in shown]
    settings = [key for key in differing(given) if key not in SHOWN]
    columns = ["run", "status", "decoder", "encoding", "holdout", *settings[:MOST_SETTINGS], "seed", *known]
    table = []
    for row, own in zip(shown, given):
        named = {"decoder": row.name} if row.name else {}
        status = {"run": row.id, "status": short(row.status)}
        table.append({**row.summary, **own, **status, **headline(row.config), **named})
    show_table(table, columns)
    if len(settings) > MOST_SETTINGS:
        say(f"The runs also differ in {', '.join(settings[MOST_SETTINGS:])}. --json shows all settings.", err=True)
    for line in damage_lines(out, damaged):
        say(line, err=True)


@command
def show_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, or a unique prefix.")],
    out: Out = Path("runs"),
    as_json: Json = False,
) -> None:
    """Show one run: its configuration, scores and facts.

    \b
    Example:
      recombine runs show 3f8e
    """
    from recombine.runs.store import Store

    stored = Store(out).load(run)
    stored.verify()
    if as_json:
        show_json({**stored.facts, "path": str(stored.path)})
        return
    facts = stored.facts
    say(f"run {stored.id} in {stored.path}")
    say(f"{facts['steps']} steps in {facts['seconds']} s on {facts['device']}, {facts['finished']}")
    say(json.dumps(stored.config.to_dict(), indent=2, ensure_ascii=False))
    say(f"{stored.scores.summary()}{described_lines(stored)}")


@command
def remove_runs(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs, or unique prefixes.")],
    out: Out = Path("runs"),
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Delete runs. All ids are checked before the first run is deleted.

    \b
    Example:
      recombine runs rm 3f8e 91c0 --dry-run
    """
    from recombine.runs.store import Store

    store = Store(out)
    names = list(dict.fromkeys(store.check_removable(run).name for run in runs))
    if not dry_run:
        for name in names:
            store.remove(name)
    if as_json:
        show_json({"removed": [] if dry_run else names, "would_remove": names if dry_run else []})
    else:
        say(("Would delete " if dry_run else "Deleted ") + ", ".join(names) + ".")


def score_columns() -> list[str]:
    """The columns of scores that a listing shows, the most important ones first."""
    from recombine.scoring.metrics import METRICS

    headlines = sorted((metric for metric in METRICS.values() if metric.headline), key=lambda metric: metric.headline)
    return [f"{split}_{metric.name}" for metric in headlines for split in ("id", "ood")]


def described_lines(run: StoredRun) -> str:
    """What a decoder reports about itself: one line per quantity and factor, with mean and maximum over its values."""
    return "".join(
        f"\n{quantity.replace('_', ' ')} of {name}: mean {sum(numbers) / len(numbers):.2f}, maximum {max(numbers):.2f}"
        for quantity, by_factor in run.described.items()
        for name, numbers in by_factor.items()
        if numbers
    )


def show_plan(store: Store, configs: list[RunConfig], as_json: bool, *, force: bool = False) -> None:
    """Print what training these configurations would do."""
    from recombine.runs.damage import damage_lines

    store.check_place()
    found = {config: store.status(config) for config in configs}
    plans = {c: planned(status, force=force, record=store.is_finished(c)) for c, status in found.items()}
    if as_json:
        show_json([{"run": c.hash, "seed": c.seed, "status": plans[c], "found": found[c].to_json(),
                    "config": c.to_dict()} for c in configs])  # fmt: skip
        return
    show_table([{"run": c.hash, "status": describe_plan(plans[c], found[c]), **headline(c.to_dict())} for c in configs],
               ["run", "status", "decoder", "encoding", "holdout", "seed"])  # fmt: skip
    damaged = {c.hash: found[c].reason for c in configs if found[c].damaged}
    for line in damage_lines(store.root, damaged, write=False):
        say(line, err=True)
    if len(configs) == 1:
        say(json.dumps(configs[0].to_dict(), indent=2, ensure_ascii=False))


def planned(status: RunStatus, *, force: bool, record: bool) -> Planned:
    """What training does with a run of this status. `record` says whether the run has a run.json."""
    from recombine.runs.status import Planned, RunState

    if status.damaged and not record:
        return Planned.TRAIN  # an unusable checkpoint is set aside
    if force and status.state is not RunState.NOT_STARTED:
        return Planned.AGAIN
    return {
        RunState.NOT_STARTED: Planned.TRAIN,
        RunState.STOPPED: Planned.CONTINUE,
        RunState.FINISHED: Planned.NOTHING,
        RunState.DAMAGED: Planned.REFUSED,
    }[status.state]


def short(status: RunStatus) -> str:
    """A status for a table cell, without the reason of damage."""
    return status.state.value if status.damaged else str(status)


def describe_plan(plan: Planned, status: RunStatus) -> str:
    """Describe a plan, with the status of the run where it adds information."""
    detail = short(status)
    return plan.value if detail in (plan.value, "not started") else f"{plan} ({detail})"
