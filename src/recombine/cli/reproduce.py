"""The command `recombine reproduce`: reproduce the paper's results and test its claims."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recombine.cli.command import command
from recombine.cli.options import Address, Device, Engine, Json
from recombine.cli.output import headline, say, show_json, show_table

if TYPE_CHECKING:
    from recombine.studies.framework.planning import Plan
    from recombine.studies.framework.reproduce import Report


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("reproduce")(reproduce)


@command
def reproduce(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[R… C…|all]", help="Results (R1 … R15) and claims (C1 … C14); default: all."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for figures, tables, verdicts and runs.")] = Path(
        "reproduction"
    ),
    profile: Annotated[str, typer.Option("--profile", help="Profile: quick, standard or paper.")] = "quick",
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Comma-separated results and claims, like the arguments.")
    ] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="Number of seeds; default: that of the profile.")] = None,
    mnist: Annotated[
        Path | None, typer.Option("--mnist", help="Folder with MNIST's IDX files, for digits that are not built in.")
    ] = None,
    engine: Engine = "processes",
    address: Address = None,
    device: Device = "auto",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs and the expected time without training.")
    ] = (False),
    as_json: Json = False,
) -> None:
    """Reproduce the paper's results and test its claims.

    A result consists of figures and tables. A claim is tested with an interval over seeds. Finished runs are kept, so
    the same command resumes an interrupted reproduction. Exits with code 1 if a run or a study failed.

    \b
    Examples:
      recombine reproduce all --profile quick --out reproduction
      recombine reproduce R5 C7 --profile quick --dry-run
    """
    from recombine import sweeps
    from recombine.core.devices import resolve
    from recombine.studies.framework import reproduce as studies
    from recombine.studies.framework.planning import plan
    from recombine.studies.framework.preparing import SweepOptions
    from recombine.studies.framework.profiles import profile as named
    from recombine.studies.framework.profiles import with_digits
    from recombine.sweeps.engines.choice import workers_for_estimate

    words = [*(what or []), *(only or [])]
    chosen = named(profile) if mnist is None else with_digits(named(profile), mnist)
    resolve(device)
    sweeps.check_engine(engine, sweeps.EngineOptions(address=address))
    if dry_run:
        workers = workers_for_estimate(engine, sweeps.EngineOptions())
        _show_plan(plan(words, chosen, out, seeds, workers=workers), workers, as_json)
        return
    report = studies.reproduce(
        words,
        chosen,
        out,
        seeds=seeds,
        sweep=SweepOptions(engine, address, device),
        command=shlex.join(["recombine", *sys.argv[1:]]),
        say=lambda text: say(text, err=True),
    )
    if as_json:
        show_json(report.to_json())
    else:
        _show(report)
    if report.failed:
        raise typer.Exit(1)


def _show_plan(plans: list[Plan], workers: int, as_json: bool) -> None:
    minutes = sum(plan.seconds for plan in plans) / 60
    side_by_side = sum(plan.seconds_on_workers for plan in plans) / 60
    if as_json:
        rows = [
            {"study": p.study, "results": p.results, "runs": p.runs, "finished": p.finished, "search": p.search,
             "seconds": round(p.seconds, 1), "seconds_on_workers": round(p.seconds_on_workers, 1),
             "to_train": [{"run": c.hash, "config": c.to_dict()} for c in p.to_train]}
            for p in plans
        ]  # fmt: skip
        times = {"minutes": round(minutes, 2), "workers": workers, "minutes_on_workers": round(side_by_side, 2)}
        show_json({"studies": rows, **times})
        return
    runs = [{"run": c.hash, "study": p.study, **headline(c.to_dict())} for p in plans for c in p.to_train]
    if runs:
        show_table(runs, ["run", "study", "decoder", "encoding", "holdout", "seed"])
        say("")
    rows = [{"study": p.study, "results": ", ".join(p.results), "runs": p.runs, "finished": p.finished,
             "search": f"+ about {p.search}" if p.search else "", "minutes": p.seconds / 60,
             f"on {workers} workers": p.seconds_on_workers / 60}
            for p in plans]  # fmt: skip
    show_table(rows, ["study", "results", "runs", "finished", "search", "minutes", f"on {workers} workers"])
    say(
        f"\nTraining takes about {minutes:.1f} minutes in one process or {side_by_side:.1f} minutes on {workers} "
        "workers, estimated from measured steps. Runs shared by several studies are counted once. "
        "Diagnoses are not included."
    )


def _show(report: Report) -> None:
    rows = [_line(row) for row in report.claims if row["claim"] in report.judged]
    if rows:
        show_table(rows, ["claim", "verdict", "decided by", "effect [95 % interval]", "required", "seeds"])
    say(
        f"\n{len(report.figures) // 2} figures in {report.out / 'figures'}, rows in {report.out / 'tables'}, "
        f"verdicts in {report.out / 'claims.json'}. Took {report.total_seconds / 60:.1f} minutes."
    )
    if report.lacking:
        say(
            f"Partial: {len(report.lacking)} studies are missing runs of the profile: "
            + ", ".join(f"{study} ({what})" for study, what in report.lacking.items())
        )
    for name, why in report.failed.items():
        say(f"failed: {name}: {why}", err=True)


def _line(row: dict[str, Any]) -> dict[str, Any]:
    low, high = row["interval"] or (None, None)
    effect = "–" if row["statistic"] is None else f"{row['statistic']:.3g}"
    if low is not None:
        effect += f" [{low:.3g}, {high:.3g}]"
    threshold = row["threshold"] if not isinstance(row["threshold"], list) else " … ".join(map(str, row["threshold"]))
    return {
        "claim": row["claim"],
        "verdict": row["verdict"],
        "decided by": row["decided_by"],
        "effect [95 % interval]": effect,
        "required": f"{row['direction']} {threshold}",
        "seeds": row["n_seeds"],
    }
