"""The command line. Heavy imports happen inside the commands, so that --help answers at once."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import recombine
from recombine.cli import diagnose as cli_diagnose
from recombine.cli import report as cli_report
from recombine.cli import reproduce as cli_reproduce
from recombine.cli import sweep as cli_sweep

if TYPE_CHECKING:
    from recombine.runs.store import StoredRun

app = typer.Typer(
    name="recombine",
    help="Study compositional generalization: train decoders, hold combinations out, see what happens.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
runs_app = typer.Typer(help="Look at stored runs, or delete them.", no_args_is_help=True)
app.add_typer(runs_app, name="runs")

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of the run store.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:N or mps.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything and say what would happen; change nothing.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Short for seed=N.")]
METRICS = ("id_mse", "ood_mse", "id_localization", "ood_localization")


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"recombine {recombine.__version__}")
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the figure, the table and the runs.")] = Path("demo"),
    device: Device = "auto",
    seed: Seed = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Train a decoder that fails on unseen pairs and one that stripes have cured; draw both (about two minutes)."""
    with reported(as_json):
        from recombine.cli.demo import configs
        from recombine.cli.demo import demo as run_demo
        from recombine.core.devices import resolve
        from recombine.runs.store import Store

        resolve(device)
        if dry_run:
            plan(Store(out / "runs"), list(configs(seed or 0).values()), as_json)
            return
        result = run_demo(out, seed=seed or 0, device=device)
        if as_json:
            show_json({"figure": str(result.figure), "table": str(result.table), "page": str(result.page),
                       "models": result.rows()})  # fmt: skip
            return
        show_table(result.rows(), ["model", *METRICS])
        typer.echo(f"\nThe picture is {result.figure}, the numbers are in {result.table}, the runs in {out / 'runs'}.")
        typer.echo(
            f"To walk through the hold-out, open {result.page} in a browser:\n  {result.page.resolve().as_uri()}"
        )


@app.command()
def train(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="For example decoder.kind=mlp decoder.depth=4 seed=0..7"),
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", help="JSON file to start from, e.g. a run's.")] = None,
    out: Out = Path("runs"),
    device: Device = "auto",
    seed: Seed = None,
    force: Annotated[bool, typer.Option("--force", help="Train again even if the run is finished.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Train a decoder and score it; a run that is finished already is only shown.

    Groups: scene, encoding, holdout, decoder, training, each with a kind, and seed. Several seeds (seed=0,1,2 or
    seed=0..7) give a run each, trained together where that is faster. Ctrl-C saves; the same command goes on.
    """
    with reported(as_json):
        from recombine.core.devices import resolve
        from recombine.core.files import read_json
        from recombine.runs.config import RunConfig
        from recombine.runs.store import Store

        base = read_json(config) if config else {}
        given = [*(overrides or []), *([] if seed is None else [f"seed={seed}"])]
        words = [word for word in given if not word.startswith("seed=")]
        with all_told(lambda: RunConfig.parse(words, base)):
            seeds = seeds_of(given)
        configs = [RunConfig.parse([*words, *s], base) for s in seeds]
        configs[0].check()
        resolve(device)
        store = Store(out)
        if dry_run:
            plan(store, configs, as_json, force=force)
            return
        runs = store.train(configs, force=force, device=device)
        for run in runs:
            run.verify()
        rows = [{"run": r.id, "path": str(r.path), "seed": r.config.seed, "steps": r.facts["steps"], **r.summary,
                 **({"effective_rank": r.effective_ranks} if r.effective_ranks else {})}
                for r in runs]  # fmt: skip
        if as_json:
            show_json(rows[0] if len(rows) == 1 else rows)
            return
        if len(runs) == 1:
            typer.echo(f"run {runs[0].id} in {runs[0].path}\n{runs[0].scores.summary()}{rank_lines(runs[0])}")
        else:
            show_table(rows, ["run", "seed", *METRICS])


@runs_app.command("list")
def list_runs(out: Out = Path("runs"), as_json: Json = False) -> None:
    """List all runs of a store."""
    with reported(as_json):
        from recombine.runs.store import Store

        rows = Store(out).list()
        if as_json:
            show_json(rows)
        elif not rows:
            typer.echo(f"There is no run in {out}. `recombine train` makes one.")
        else:
            show_table([{**row, **headline(row["config"])} for row in rows],
                       ["run", "status", "decoder", "encoding", "holdout", "seed", *METRICS])  # fmt: skip


@runs_app.command("show")
def show_run(run: str, out: Out = Path("runs"), as_json: Json = False) -> None:
    """Show one run: its configuration, scores and facts."""
    with reported(as_json):
        from recombine.runs.store import Store

        stored = Store(out).load(run)
        stored.verify()
        if as_json:
            show_json({**stored.facts, "path": str(stored.path)})
            return
        facts = stored.facts
        typer.echo(f"run {stored.id} in {stored.path}")
        typer.echo(f"{facts['steps']} steps in {facts['seconds']} s on {facts['device']}, {facts['finished']}")
        typer.echo(json.dumps(stored.config.to_dict(), indent=2, ensure_ascii=False))
        typer.echo(f"{stored.scores.summary()}{rank_lines(stored)}")


def rank_lines(run: StoredRun) -> str:
    """A line per factor of a factor-rendered decoder; nothing for others."""
    return "".join(
        f"\neffective rank of the maps of {name}: mean {sum(ranks) / len(ranks):.2f}, most {max(ranks):.2f}"
        for name, ranks in run.effective_ranks.items()
    )


@runs_app.command("rm")
def remove_runs(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids, or their beginnings.")],
    out: Out = Path("runs"),
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Delete runs. All names are checked before the first is deleted."""
    with reported(as_json):
        from recombine.runs.store import Store

        store = Store(out)
        names = list(dict.fromkeys(store.check_removable(run).name for run in runs))
        if not dry_run:
            for name in names:
                store.remove(name)
        if as_json:
            show_json({"removed": [] if dry_run else names, "would_remove": names if dry_run else []})
        else:
            typer.echo(("Would delete " if dry_run else "Deleted ") + ", ".join(names) + ".")


@contextlib.contextmanager
def reported(as_json: bool) -> Iterator[None]:
    """Turn the errors we raise on purpose into a message and an exit code."""
    from recombine.core.errors import RecombineError

    try:
        yield
    except RecombineError as error:
        message, code = str(error), error.exit_code
    except (MemoryError, RuntimeError) as error:  # torch reports a failed allocation as a RuntimeError
        if isinstance(error, RuntimeError) and "alloca" not in str(error) and "out of memory" not in str(error):
            raise
        message, code = f"This does not fit into memory. Choose smaller sizes. ({error})", 2
    except OSError as error:  # a file or folder that may not be read or entered
        if error.filename is None:
            raise
        message, code = f"Cannot use {error.filename}: {error.strerror}. Check who may, or choose another folder.", 2
    else:
        return
    typer.echo(f"error: {message}", err=True)
    if as_json:
        show_json({"error": message})
    raise typer.Exit(code)


def seeds_of(words: list[str]) -> list[list[str]]:
    """The seeds in seed=0,1,2 or seed=0..7 as a word each; no word if none is given. The last one counts."""
    from recombine.sweeps.spec.values import split_values

    given = [word.partition("=")[2] for word in words if word.startswith("seed=")]
    return [[f"seed={seed}"] for seed in dict.fromkeys(split_values(given[-1]))] if given else [[]]


@contextlib.contextmanager
def all_told(check: Callable[[], object]) -> Iterator[None]:
    """If an input error is raised inside, raise it together with the one that `check` raises, if it does."""
    from recombine.core.errors import InputError

    try:
        yield
    except InputError as error:
        try:
            check()
        except InputError as other:
            raise InputError(f"{other}\n{error}") from error
        raise


def plan(store: Any, configs: list[Any], as_json: bool, *, force: bool = False) -> None:
    """What training these configurations would do."""
    store.check_place()
    rows = [{"run": c.hash, "seed": c.seed, "status": planned(store.status(c), force), "config": c.to_dict()}
            for c in configs]  # fmt: skip
    if as_json:
        show_json(rows)
        return
    show_table([{**row, **headline(row["config"])} for row in rows],
               ["run", "status", "decoder", "encoding", "holdout", "seed"])  # fmt: skip
    if len(configs) == 1:
        typer.echo(json.dumps(configs[0].to_dict(), indent=2, ensure_ascii=False))


def planned(status: str, force: bool) -> str:
    """What happens to a run of this status."""
    if status == "not started":
        return "to train"
    if force:
        return f"to train again ({status})"
    return f"to train on ({status})" if status.startswith("stopped") else status


def headline(config: dict[str, Any]) -> dict[str, Any]:
    """The parts of a configuration that fit into a table."""
    kinds = {name: config.get(name, {}).get("kind", "") for name in ("decoder", "encoding", "holdout")}
    sizes = [str(config.get("decoder", {})[key]) for key in ("depth", "width") if key in config.get("decoder", {})]
    if sizes:
        kinds["decoder"] += f"({', '.join(sizes)})"
    return {**kinds, "seed": config.get("seed", "")}


def show_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


def show_table(rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Plain aligned columns; numbers to three digits."""

    def text(value: Any) -> str:
        return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)

    cells = [columns, *([text(row.get(column, "")) for column in columns] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main() -> None:
    """Entry point: bad usage and bad input end with code 2, other failures with 1, Ctrl-C with 130."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)


cli_diagnose.register(app)
cli_sweep.register(app)
cli_reproduce.register(app)
cli_report.register(app)
