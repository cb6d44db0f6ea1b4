"""The command `recombine demo`: a decoder with separate inputs x and y fails on unseen pairs; two remedies fix it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recombine.cli.command import command
from recombine.cli.options import Device, DryRun, Json
from recombine.cli.output import say, show_json, show_table
from recombine.cli.runs import score_columns, show_plan

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis
    from recombine.runs.config import RunConfig
    from recombine.runs.store import StoredRun

CNN = ["decoder.kind=cnn", "decoder.depth=4", "decoder.width=32", "encoding.kind=bump", "training.kind=recommended"]
MODELS = {
    "bumps": CNN,
    "bumps + stripes": [*CNN, "training.examples.single_factor={}"],
    "composed": ["decoder.kind=composed", "encoding.kind=onehot", "training.kind=composed"],
}
TITLES = {
    "bumps": "trained on bumps",
    "bumps + stripes": "with stripes added",
    "composed": "factors act on each other",
}
COMMON = ["holdout.kind=centre"]
SHOWN = [(2, 24), (24, 3), (9, 11), (14, 14), (20, 9), (11, 20)]  # two trained combinations, four held-out ones


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("demo")(show_demo)


@command
def show_demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the figure, the table and the runs.")] = Path("demo"),
    device: Device = "auto",
    seed: Annotated[int, typer.Option("--seed", help="Seed of all networks.")] = 0,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Show the failure on unseen pairs and two remedies.

    Trains three decoders: one on bumps, one on bumps and stripes, and one whose factors act on each other. Then draws a
    figure and writes an interactive page. Takes about two minutes.

    \b
    Example:
      recombine demo --out demo
    """
    from recombine.core.devices import resolve
    from recombine.runs.store import Store

    resolve(device)
    if dry_run:
        show_plan(Store(out / "runs"), list(configs(seed).values()), as_json)
        return
    result = demo(out, seed=seed, device=device)
    if as_json:
        show_json({"figure": str(result.figure), "table": str(result.table), "page": str(result.page),
                   "models": result.rows()})  # fmt: skip
        return
    show_table(result.rows(), ["model", *score_columns()])
    say(f"\nWrote the figure to {result.figure}, the numbers to {result.table} and the runs to {out / 'runs'}.")
    say(f"To explore the held-out combinations, open {result.page} in a browser:\n  {result.page.resolve().as_uri()}")


@dataclass(frozen=True)
class DemoResult:
    runs: dict[str, StoredRun]
    figure: Path
    table: Path
    page: Path

    def rows(self) -> list[dict[str, Any]]:
        return [{"model": TITLES[name], "run": run.id, **run.summary} for name, run in self.runs.items()]


def configs(seed: int) -> dict[str, RunConfig]:
    from recombine.runs.config import RunConfig

    return {name: RunConfig.parse([*COMMON, *changes, f"seed={seed}"]) for name, changes in MODELS.items()}


def demo(out: Path, *, seed: int = 0, device: str = "auto", progress: bool | None = None) -> DemoResult:
    """Train the models (or take them from `out`/runs), draw the figure, write the table and the page."""
    from recombine.core.files import write_json
    from recombine.report.collect import Collected, Model
    from recombine.report.page import write_report
    from recombine.runs.store import Store

    store = Store(out / "runs")
    runs = {name: store.train([config], device=device, progress=progress)[0] for name, config in configs(seed).items()}
    result = DemoResult(runs, out / "demo.png", out / "demo.json", out / "report.html")
    draw(runs, result.figure)
    write_json(result.table, {"seed": seed, "models": result.rows()})
    models = [Model(TITLES[name], _diagnosed(run, progress), run) for name, run in runs.items()]
    write_report(Collected(models=models, runs=list(runs.values())), result.page)
    return result


def _diagnosed(run: StoredRun, progress: bool | None) -> Diagnosis:
    """Load the run's diagnosis with the parts that the page shows, or compute it if it is missing."""
    from recombine.core.errors import StoreError
    from recombine.report.collect import page_parts

    try:
        found = run.diagnosis
        if all(found[part].computed for part in page_parts()):
            return found
    except StoreError:
        pass
    return run.diagnose(parts=page_parts(), progress=progress)


def draw(runs: dict[str, StoredRun], path: Path) -> None:
    """Draw the figure from stored runs."""
    import torch

    from recombine.plotting.images import comparison
    from recombine.plotting.writing import write_figure
    from recombine.scoring.outputs import render

    task = next(iter(runs.values())).task
    cells = task.space.cells(torch.tensor(SHOWN, dtype=torch.get_default_dtype()))
    outputs = {}
    truth = None
    for name, run in runs.items():
        truth, outputs[name] = render(run.model, run.task, cells)  # each has its own code
    assert truth is not None
    found = {name: 100 * (run.summary["ood_localization"] or 0) for name, run in runs.items()}
    titles = {name: f"{TITLES[name]}: right place for\n{found[name]:.0f} % of the unseen pairs" for name in runs}
    errors = {name: run.scores.columns["mse"] for name, run in runs.items()}
    write_figure(comparison(task, errors, outputs, truth, cells.tolist(), titles), path)
