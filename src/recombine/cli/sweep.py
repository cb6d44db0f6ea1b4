"""The commands `recombine sweep`, `recombine sweep status` and `recombine sweep table`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from recombine.runs.store import Store
    from recombine.sweeps import Sweep, SweepResult

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the sweep: its --out.")]


class SweepGroup(TyperGroup):
    """`recombine sweep a=b` is short for `recombine sweep run a=b`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["run", *args]
        return super().parse_args(ctx, args)


sweep_app = typer.Typer(
    cls=SweepGroup,
    no_args_is_help=True,
    help="""Run many configurations; whatever is killed on the way, the same command goes on.

    recombine sweep decoder.depth=2,3,4 seed=0..7 encoding.kind=bump,ramp    (options: recombine sweep run --help)

    recombine sweep sweep.yaml --engine ray --address auto
    """,
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(sweep_app, name="sweep")


@sweep_app.command("run")
def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE,VALUE...|FILE.yaml]...", help="Every combination; see docs/sweeps.md."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the run store.")] = Path("runs"),
    engine: Annotated[str, typer.Option("--engine", help="in-process, processes or ray.")] = "processes",
    address: Annotated[
        str | None, typer.Option("--address", help="Of a Ray cluster: auto, HOST:PORT, or local to start one here.")
    ] = None,
    shared: Annotated[
        bool, typer.Option("--shared", help="All machines of the Ray cluster see --out under the same path.")
    ] = False,
    max_parallel: Annotated[
        int | None, typer.Option("--max-parallel", help="Jobs at once; as many as fit unless given.")
    ] = None,
    cpus: Annotated[float, typer.Option("--cpus", help="Cores that a job needs.")] = 1.0,
    gpus: Annotated[float, typer.Option("--gpus", help="GPUs that a job needs; 0.25 puts four on one.")] = 0.0,
    memory: Annotated[str, typer.Option("--memory", help="Memory that a job needs, e.g. 2GB.")] = "0",
    retries: Annotated[int, typer.Option("--retries", help="How often a job whose process died is tried again.")] = 2,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", help="Seconds after which a job is ended and counts as failed.")
    ] = None,
    checkpoint_seconds: Annotated[
        float, typer.Option("--checkpoint-seconds", help="How often running trainings save their state.")
    ] = 60.0,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    any_version: Annotated[
        bool, typer.Option("--any-version", help="Also add to a folder whose runs other versions made.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs and the estimated time.")] = False,
    as_json: Json = False,
) -> None:
    """Train every configuration that is not finished yet. Seeds train together where that is faster."""
    from recombine.cli.app import reported

    with reported(as_json):
        from recombine import sweeps
        from recombine.core.errors import InputError
        from recombine.runs.store import Store

        files = [word for word in words or [] if "=" not in word and word.endswith((".yaml", ".yml"))]
        if len(files) > 1:
            raise InputError(f"A sweep has one file. Got {', '.join(files)}; a file may hold several blocks.")
        spec = sweeps.parse([w for w in words or [] if w not in files], Path(files[0]) if files else None)
        store = Store(out)
        needs = sweeps.Needs(cpus, gpus, in_bytes(memory))
        if engine in ("in-process", "processes"):
            from recombine.core.devices import resolve

            resolve(device)
        sweeps.checked_limits(retries, time_limit, checkpoint_seconds)
        sweeps.check_engine(engine, max_parallel, address, shared)
        if dry_run:
            plan(spec, store, engine, max_parallel, needs, any_version, as_json)
            return
        for note in spec.notes:
            typer.echo(note, err=True)
        result = sweeps.run(
            spec.configs,
            store,
            engine=engine,
            workers=max_parallel,
            needs=needs,
            address=address,
            shared=shared,
            device=device,
            retries=retries,
            time_limit=time_limit,
            checkpoint_seconds=checkpoint_seconds,
            any_version=any_version,
        )
        show(result, out, spec, as_json)
    if result.failed:
        typer.echo("Run the same command again to try the failed ones again.", err=True)
        raise typer.Exit(1)


def show(result: SweepResult, out: Path, spec: Sweep, as_json: bool) -> None:
    from recombine.cli.app import show_json

    if as_json:
        show_json(
            {
                "out": str(out),
                "runs": len(spec.configs),
                "merged": spec.merged,
                "excluded": spec.excluded,
                "finished": result.finished,
                "trained": result.trained,
                "failed": [vars(failure) for failure in result.failed],
                "seconds": round(result.seconds, 3),
            }
        )
        return
    before = len(result.finished) - len(result.trained)
    typer.echo(
        f"{len(result.finished)} of {len(spec.configs)} runs are finished ({before} were before or by others), "
        f"{len(result.failed)} failed. Results: recombine sweep table {out}"
    )


def plan(
    spec: Sweep, store: Store, engine: str, workers: int | None, needs: Any, any_version: bool, as_json: bool
) -> None:
    """What a sweep would do: its runs, which are stored already, and about how long the others take."""
    from recombine.cli.app import headline, show_json, show_table
    from recombine.runs import estimate
    from recombine.sweeps import Needs, manifest
    from recombine.sweeps.engines.choice import make_executor
    from recombine.sweeps.jobs import batches
    from recombine.sweeps.status import clock

    store.check_place()
    manifest.check_versions(store, spec.configs, any_version)
    todo = [config for config in spec.configs if not store.is_finished(config)]
    if engine == "ray":  # a cluster is not asked before the sweep starts; as if it were this machine
        needs = Needs()
    local = "processes" if engine == "ray" else engine
    workers = make_executor(local, workers, needs, store.root, None, False, None).capacity()
    jobs = batches(todo)
    seconds = estimate.seconds(jobs, store, workers)
    rows = [
        {"run": c.hash, "status": "stored" if store.is_finished(c) else "to train", "config": c.to_dict()}
        for c in spec.configs
    ]
    told = {"runs": len(rows), "stored": len(rows) - len(todo), "to_train": len(todo), "jobs": len(jobs),
            "workers": workers, "estimated_seconds": round(seconds, 3), "notes": spec.notes}  # fmt: skip
    if as_json:
        show_json({**told, "plan": rows})
        return
    show_table([{**row, **headline(row["config"])} for row in rows],
               ["run", "status", "decoder", "encoding", "holdout", "seed"])  # fmt: skip
    for note in spec.notes:
        typer.echo(note)
    typer.echo(
        f"{len(rows)} runs, {told['stored']} stored already; the others in {len(jobs)} jobs on {workers} "
        f"workers: about {clock(seconds)}."
    )


def in_bytes(text: str) -> int:
    """2GB, 512MB, 1.5GiB or a number of bytes."""
    from recombine.core.errors import InputError

    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise InputError(f"Memory is written like 2GB or 512MiB. Got {text!r}.")
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(unit.upper() or " "))


@sweep_app.command("status")
def show_status(folder: Folder, as_json: Json = False) -> None:
    """How far a sweep is, from any terminal: finished, running, failed and waiting runs."""
    from recombine.cli.app import reported, show_json

    with reported(as_json):
        from recombine import sweeps

        found = sweeps.status(folder)
        if as_json:
            show_json(found.to_json())
        else:
            typer.echo(str(found))


@sweep_app.command("table")
def show_results(
    folder: Folder,
    group: Annotated[bool, typer.Option("--group", help="Means with 95 % intervals over seeds.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All settings, not only those in which runs differ.")] = False,
    save: Annotated[
        list[Path] | None, typer.Option("--save", help="Write to FILE.csv or FILE.parquet; may be given several times.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw to a picture file.")] = None,
    x: Annotated[str | None, typer.Option("--x", help="Setting along the x axis; one that differs.")] = None,
    y: Annotated[str, typer.Option("--y", help="Metric along the y axis.")] = "ood_mse",
    by: Annotated[str | None, typer.Option("--by", help="Setting with a line per value.")] = None,
    as_json: Json = False,
) -> None:
    """All finished runs as a tidy table: CSV on standard output unless saved to a file."""
    from recombine.cli.app import reported, show_json

    with reported(as_json):
        from recombine import sweeps
        from recombine.core.errors import InputError
        from recombine.runs.store import Store

        if not folder.is_dir():
            raise InputError(f"There is no folder {folder}. Give the --out of a sweep.")
        whole = sweeps.table(Store(folder), all_settings=every)
        shown = whole.grouped() if group else whole
        for run_id, why in whole.skipped.items():
            typer.echo(f"left out {run_id}: {why}", err=True)
        if not whole.rows:
            typer.echo(f"note: no run in {folder} is finished.", err=True)
        for path in save or []:
            shown.write(path)
        if plot is not None:
            axis = x or next((name for name in whole.settings if len({str(r[name]) for r in whole.rows}) > 1), "seed")
            draw(whole, plot, axis, y, by)
        if as_json:
            show_json(shown.rows)
        elif not save and plot is None:
            typer.echo(shown.to_csv(), nl=False)


def draw(table: Any, path: Path, x: str, y: str, by: str | None) -> None:
    from recombine.core.errors import StoreError

    figure = table.plot(x, y, by).figure
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise StoreError(f"Could not draw to {path}: {error}.") from error
