"""The command `recombine train`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from recombine.cli.command import command
from recombine.cli.options import Device, DryRun, Json, Out, Seed
from recombine.cli.output import say, show_json, show_table
from recombine.cli.runs import described_lines, score_columns, show_plan


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("train")(train)


@command
def train(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Settings, for example decoder.kind=mlp decoder.depth=4 seed=0..7"
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", help="JSON or YAML file to start from.")] = None,
    out: Out = Path("runs"),
    device: Device = "auto",
    seed: Seed = None,
    force: Annotated[bool, typer.Option("--force", help="Train again even if the run is finished.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Train a decoder and score it.

    Settings belong to the groups scene, encoding, holdout, decoder and training, each of which has a kind. Several
    seeds (seed=0,1,2 or seed=0..7) give one run each and train together where that is faster. Ctrl-C saves the state,
    and the same command resumes training. If the run is already finished, the command only shows it.

    \b
    Examples:
      recombine train decoder.kind=cnn decoder.depth=4 decoder.width=64 encoding.kind=bump seed=0
      recombine train --config experiment.yaml --dry-run
    """
    from recombine.core.devices import resolve
    from recombine.core.files import read_config
    from recombine.runs.config import RunConfig
    from recombine.runs.store import Store

    base = read_config(config) if config else {}
    given = [*(overrides or []), *([] if seed is None else [f"seed={seed}"])]
    words = [word for word in given if not word.startswith("seed=")]
    with join_input_errors(lambda: RunConfig.parse(words, base)):
        seeds = seeds_of(given)
    configs = [RunConfig.parse([*words, *s], base) for s in seeds]
    configs[0].check()
    resolve(device)
    store = Store(out)
    if dry_run:
        show_plan(store, configs, as_json, force=force)
        return
    runs = store.train(configs, force=force, device=device)
    for run in runs:
        run.verify()
    rows = [{"run": r.id, "path": str(r.path), "seed": r.config.seed, "steps": r.facts["steps"], **r.summary,
             **r.described}
            for r in runs]  # fmt: skip
    if as_json:
        show_json(rows[0] if len(rows) == 1 else rows)
    elif len(runs) == 1:
        say(f"run {runs[0].id} in {runs[0].path}\n{runs[0].scores.summary()}{described_lines(runs[0])}")
    else:
        show_table(rows, ["run", "seed", *score_columns()])


def seeds_of(words: list[str]) -> list[list[str]]:
    """The last seed=0,1,2 or seed=0..7 as one `seed=N` word per seed; an empty word list if no seed is given."""
    from recombine.sweeps.spec.values import split_values

    given = [word.partition("=")[2] for word in words if word.startswith("seed=")]
    return [[f"seed={seed}"] for seed in dict.fromkeys(split_values(given[-1]))] if given else [[]]


@contextlib.contextmanager
def join_input_errors(check: Callable[[], object]) -> Iterator[None]:
    """If an input error is raised inside, raise it joined with the one that `check` raises, if any."""
    from recombine.core.errors import InputError

    try:
        yield
    except InputError as error:
        try:
            check()
        except InputError as other:
            raise InputError.join([*other.problems, *error.problems]) from error
        raise
