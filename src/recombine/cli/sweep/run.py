"""The command `recombine sweep run`, or `recombine sweep` for short."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recombine.cli.command import command
from recombine.cli.options import (
    Address,
    AnyVersion,
    Budget,
    Cells,
    Device,
    Engine,
    Json,
    MaxParallel,
    Out,
    PartSettings,
    comma_separated,
    request_fields,
)
from recombine.cli.output import headline, say, show_json, show_table

if TYPE_CHECKING:
    from recombine.diagnostics.request import DiagnosisRequest
    from recombine.sweeps import Sweep, SweepPlan, SweepResult


def register(group: typer.Typer) -> None:
    """Add the command to the group."""
    group.command("run")(run)


@command
def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE,VALUE...|FILE.yaml]...",
            help="Settings; all combinations of the values are trained. See docs/sweeps.md.",
        ),
    ] = None,
    out: Out = Path("runs"),
    diagnose: Annotated[
        str | None,
        typer.Option(
            "--diagnose", metavar="PARTS", help="Also diagnose every run: all, or parts such as errors,probes."
        ),
    ] = None,
    budget: Budget = None,
    cells: Cells = None,
    settings: PartSettings = None,
    engine: Engine = "processes",
    address: Address = None,
    shared: Annotated[
        bool, typer.Option("--shared", help="All machines of the Ray cluster can access --out under the same path.")
    ] = False,
    max_parallel: MaxParallel = None,
    cpus: Annotated[float, typer.Option("--cpus", help="CPU cores per job.")] = 1.0,
    gpus: Annotated[float, typer.Option("--gpus", help="GPUs per job; with 0.25, four jobs share one GPU.")] = 0.0,
    memory: Annotated[str, typer.Option("--memory", help="Memory to reserve per job, e.g. 2GB.")] = "0",
    retries: Annotated[int, typer.Option("--retries", help="How many times to retry a job whose process died.")] = 2,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", help="Seconds after which a job is stopped and counts as failed.")
    ] = None,
    checkpoint_seconds: Annotated[
        float, typer.Option("--checkpoint-seconds", help="Seconds between checkpoints.")
    ] = 60.0,
    device: Device = "auto",
    any_version: AnyVersion = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs and estimate the time, without training.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train every configuration that is not finished yet, and optionally diagnose all runs.

    Seeds of a configuration train together where that is faster.

    \b
    Examples:
      recombine sweep decoder.depth=2,3,4 seed=0..7 encoding.kind=bump,ramp
      recombine sweep sweep.yaml --engine ray --address auto
    """
    from recombine import sweeps
    from recombine.core.devices import resolve
    from recombine.runs.store import Store
    from recombine.sweeps.engines.choice import is_cluster

    spec = specification(words or [], sample=dry_run)
    store = Store(out)
    options = sweeps.EngineOptions(
        max_parallel, sweeps.Needs(cpus, gpus, in_bytes(memory)), address=address, shared=shared
    )
    request = requested(diagnose, request_fields(budget, cells, settings))
    sweeps.checked_limits(retries, time_limit, checkpoint_seconds)
    sweeps.check_engine(engine, options)
    if not is_cluster(engine):
        resolve(device)
    if dry_run:
        show_plan(sweeps.plan(spec, store, engine, options, any_version=any_version), as_json)
        return
    for note in spec.notes:
        say(note, err=True)
    result = sweeps.run(
        spec.configs,
        store,
        diagnose=request,
        engine=engine,
        workers=max_parallel,
        needs=options.needs,
        address=address,
        shared=shared,
        device=device,
        retries=retries,
        time_limit=time_limit,
        checkpoint_seconds=checkpoint_seconds,
        any_version=any_version,
    )
    show(result, out, spec, as_json)
    if result.failed or result.undiagnosed:
        say("Run the same command again to retry the failed runs.", err=True)
        raise typer.Exit(1)


def specification(words: list[str], *, sample: bool) -> Sweep:
    """Parse the words, at most one of which is a file, into a sweep, or into a sample of it if it is large."""
    from recombine import sweeps
    from recombine.core.errors import InputError

    files = [word for word in words if "=" not in word and word.endswith((".yaml", ".yml"))]
    if len(files) > 1:
        raise InputError(f"A sweep takes at most one file, which may contain several blocks. Got {', '.join(files)}.")
    return sweeps.parse([word for word in words if word not in files], Path(files[0]) if files else None, sample=sample)


def requested(parts: str | None, settings: dict[str, Any]) -> DiagnosisRequest | None:
    """Parse the value of --diagnose; `settings` are other fields of the request."""
    from recombine.core.errors import InputError
    from recombine.diagnostics.part import chosen_parts
    from recombine.diagnostics.request import DiagnosisRequest

    if parts is None:
        if settings:
            raise InputError(
                "--budget, --cells and --set configure a diagnosis, so they require --diagnose. Add --diagnose all.",
                "diagnose",
            )
        return None
    names = comma_separated([parts])
    request = DiagnosisRequest(parts=None if names == ["all"] else names, **settings)
    chosen_parts(request)
    return request


def show(result: SweepResult, out: Path, spec: Sweep, as_json: bool) -> None:
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
                "diagnosed": result.diagnosed,
                "undiagnosed": [vars(failure) for failure in result.undiagnosed],
                "seconds": round(result.seconds, 3),
            }
        )
        return
    before = len(result.finished) - len(result.trained)
    wanted = len(result.diagnosed) + len(result.undiagnosed)
    diagnosed = f" {len(result.diagnosed)} of {wanted} diagnoses are stored with them." if wanted else ""
    say(
        f"{len(result.finished)} of {len(spec.configs)} runs are finished ({before} of them earlier or by other "
        f"processes) and {len(result.failed)} failed.{diagnosed} See the results with: recombine sweep table {out}"
    )


def show_plan(plan: SweepPlan, as_json: bool) -> None:
    """Print the runs, which of them are stored already, and the estimated time of the others."""
    from recombine.sweeps.status import clock

    if as_json:
        show_json(plan.to_json())
        return
    show_table([{**row, **headline(row["config"])} for row in plan.rows()],
               ["run", "status", "decoder", "encoding", "holdout", "seed"])  # fmt: skip
    for note in plan.notes:
        say(note)
    say(
        f"{plan.runs} runs, {plan.finished} of them already stored. Training the rest in {plan.jobs} jobs on "
        f"{plan.workers} workers takes about {clock(plan.seconds)}."
    )


def in_bytes(text: str) -> int:
    """Parse a size such as 2GB, 512MB, 1.5GiB or a number of bytes."""
    from recombine.core.errors import InputError

    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise InputError(f"--memory must be a size such as 2GB or 512MiB. Got {text!r}.")
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(unit.upper() or " "))
