"""Runs a comparison: trials, selection of settings, the reported runs, and all results derived from them.

    DIR/compare.json          suite, budget, remedies, selected settings, what is left out and why, and why runs failed
    DIR/rows.csv              one row per remedy, scene, split and seed
    DIR/summary.csv, DIR/ranks.csv, DIR/table.tex
    DIR/published.csv         published claims, tested on the rows
    DIR/limits.csv            facts of every scene and split, and what a sum over factors can reach
    DIR/figures/….png and .pdf, outputs_….png: what every remedy draws for the same unseen cells
    DIR/runs/                 the store of trials and runs

Finished runs are kept, so the same call resumes an interrupted comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recombine.core.errors import InputError
from recombine.core.files import inside, write_json, write_text
from recombine.core.tables import to_csv
from recombine.diagnostics.request import DiagnosisRequest
from recombine.plotting.writing import write_figure
from recombine.runs.config import RunConfig
from recombine.runs.estimate import Estimator, kind_of
from recombine.runs.store import Store
from recombine.studies.compare import figures, gallery, place, tables
from recombine.studies.compare.limits import limits
from recombine.studies.compare.planning import Entry, built_scene, entries, split_facts
from recombine.studies.compare.published import outcomes
from recombine.studies.compare.results import COLUMNS, Status, best_trial, can_be_diagnosed, ranks, row_of
from recombine.studies.compare.suite import SUITES, Suite
from recombine.sweeps.jobs.training import batches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REQUEST = DiagnosisRequest(parts=("superposition",))
PAGE_REQUEST = DiagnosisRequest(parts=("outputs", "superposition"))
DPI = 120
PAGE_BYTES = 25_000_000  # of outputs on a page, one byte per number before compression
# (configurations, store, diagnosis request) → why runs failed, by id
Train = Callable[[Sequence[RunConfig], Store, DiagnosisRequest | None], dict[str, str]]


@dataclass(frozen=True)
class Plan:
    """The plan of a comparison.

    Attributes:
        entries: Every remedy on every scene and split, including those left out.
        trials, finals: Runs that select settings, and runs that are reported.
        stored: How many of both are finished.
        alone: Estimated time to train the rest in one process.
        seconds: Estimated time on the given number of workers; not less than that of the longest job.
        workers: Number of jobs at a time.
        failing: Errors of remedies that raised while their steps were measured.
    """

    entries: list[Entry]
    trials: int
    finals: int
    stored: int
    alone: float
    seconds: float
    workers: int
    failing: Mapping[str, str] = field(default_factory=dict)

    @property
    def speedup(self) -> float:
        """How many times faster the workers are than one process."""
        return self.alone / self.seconds if self.seconds else 1.0

    @property
    def left_out(self) -> list[dict[str, str]]:
        """One row per combination that is left out, with the reason."""
        return [
            {"remedy": e.remedy.name, "scene": e.scene, "split": e.split, "status": str(e.status), "reason": e.reason}
            for e in self.entries
            if e.status is not None
        ]

    def to_json(self) -> dict[str, Any]:
        counts = {"entries": len(self.entries), "trials": self.trials, "finals": self.finals, "stored": self.stored}
        return {
            **counts,
            "workers": self.workers,
            "estimated_seconds": round(self.seconds, 1),
            "estimated_seconds_alone": round(self.alone, 1),
            "speedup": round(self.speedup, 1),
            "left_out": self.left_out,
            "failing": dict(self.failing),
        }


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        out: The output folder.
        rows: See `recombine.studies.compare.results.COLUMNS`.
        ranked: Mean ranks.
        failed: Why reported runs failed, by id, and why remedies could not be configured, by remedy, scene and split.
        shown: Ids of the diagnosed runs of the first seed, for a page.
        cells: Number of cells of each of them whose outputs fit on the page.
        figures: The PNG files.
    """

    out: Path
    rows: list[dict[str, Any]]
    ranked: list[dict[str, Any]]
    failed: dict[str, str]
    shown: list[str]
    cells: int
    figures: list[Path]

    def to_json(self) -> dict[str, Any]:
        return {"out": str(self.out), "rows": self.rows, "ranks": self.ranked, "failed": self.failed}


def plan(suite: Suite, out: Path, *, workers: int, budget: float = 60.0) -> Plan:
    """Plan a comparison. Writes nothing. Measures steps of each kind of run for up to `budget` seconds in total.

    Raises:
        InputError: If nothing can be compared, or if `out` contains other results.
    """
    store, found = Store(Path(out) / "runs"), entries(suite)
    check_any(found)
    place.check(Path(out), suite)
    store.check_place()
    used = [entry for entry in found if entry.status is None]
    trials = [config for entry in used for config in entry.trials]
    finals = [
        entry.final(0, seed) for entry in used for seed in range(suite.seeds)
    ]  # the learning rate of a trial does not change its time
    left = [config for config in dict.fromkeys([*trials, *finals]) if not store.is_finished(config)]
    estimator, jobs = Estimator(store, measure=0.05, budget=budget, threads=1), batches(left)
    alone, seconds = (estimator.on_workers(jobs, number) for number in (1, workers))
    stored = len(set(trials) | set(finals)) - len(left)
    failing = {}
    for entry in used:
        for config in (entry.trials[0], entry.final(0, 0)):
            if (error := estimator.errors.get(kind_of(config))) is not None:
                failing[f"{entry.remedy.name} on {entry.scene}, {entry.split}"] = error
    return Plan(found, len(trials), len(finals), stored, alone, seconds, workers, failing)


def compare(suite: Suite, out: Path, *, train: Train, say: Callable[[str], None] = lambda text: None) -> Comparison:
    """Train what is missing, select settings, and write rows, tables and figures.

    Raises:
        InputError: If nothing can be compared, or if `out` contains other results.
    """
    out, store, found = Path(out), Store(Path(out) / "runs"), entries(suite)
    check_any(found)
    place.claim(out, suite)
    used = [entry for entry in found if entry.status is None]
    say(f"{len(used)} of {len(found)} combinations of remedy, scene and split are compared.")
    for entry in found:
        if entry.status is not None:
            say(f"{entry.status}: {entry.remedy.name} on {entry.scene}, {entry.split}: {entry.reason}")
    trials = train([config for entry in used for config in entry.trials], store, None)
    best = {id(entry): best_trial(store, entry) for entry in used}
    finals = [entry.final(best[id(entry)], seed) for entry in used for seed in range(suite.seeds)]
    say(f"Selected the settings. Training up to {len(finals)} final runs.")
    failed = train(finals, store, None)
    failed |= train([config for config in finals if can_be_diagnosed(store, config)], store, REQUEST)
    facts = split_facts(suite)
    rows = [
        row_of(store, entry, seed, best.get(id(entry)), facts[entry.scene, entry.split], trials | failed)
        for entry in found
        for seed in range(suite.seeds)
    ]
    judged = {row["run"] for row in rows if row["status"] == Status.DONE}
    failed = {run: why for run, why in failed.items() if run not in judged}
    failed |= {f"{e.remedy.name} on {e.scene}, {e.split}": e.reason for e in found if e.status is Status.FAILED}
    ranked = ranks(rows)
    write_tables(out, suite, found, best, rows, ranked=ranked, failed={"failed_trials": trials, "failed": failed})
    write_text(out / "limits.csv", table(limits(suite, facts)))
    drawn = draw(store, out, rows, ranked)
    shown, cells = shown_on_page(suite, rows)
    say(f"Storing the outputs of {len(shown)} runs for the page.")
    train([config for config in finals if config.hash in shown], store, PAGE_REQUEST)
    return Comparison(out, rows, ranked, failed, shown, cells, drawn)


def check_any(found: Sequence[Entry]) -> None:
    """Raise if no remedy fits any scene and split."""
    if all(entry.status is Status.LEFT_OUT for entry in found):
        reasons = "; ".join(dict.fromkeys(f"{e.remedy.name} on {e.scene}, {e.split}: {e.reason}" for e in found))
        raise InputError(f"Nothing can be compared. {reasons}", "remedies")


def shown_on_page(suite: Suite, rows: Sequence[Mapping[str, Any]], most: int = PAGE_BYTES) -> tuple[list[str], int]:
    """Ids of the diagnosed runs of the first seed, and the number of cells of each whose outputs fit on a page."""
    runs = [row for row in rows if row["seed"] == 0 and row["id_error"] is not None]
    sizes = {name: built_scene(given) for name, given in suite.scenes.items()}
    largest = max((len(scene.space) for scene in sizes.values()), default=0)
    each = sum(math.prod(sizes[row["scene"]].output_shape) for row in runs)
    return [row["run"] for row in runs], min(largest, max(1, most // each)) if each else 0


def write_tables(
    out: Path,
    suite: Suite,
    found: Sequence[Entry],
    best: Mapping[int, int],
    rows: list[dict[str, Any]],
    *,
    ranked: list[dict[str, Any]],
    failed: Mapping[str, Mapping[str, str]],
) -> None:
    """Write all tables but the limits, and what the comparison consists of.

    Args:
        best: Maps ids of entries to the selected trials.
        failed: Why trials and reported runs failed.
    """
    left_out = [[e.remedy.name, e.scene, e.split, e.reason] for e in found if e.status is not None]
    selected = [[e.remedy.name, e.scene, e.split, dict(e.remedy.trials[best[id(e)]])] for e in found if id(e) in best]
    about = {**place.identity(suite), "selected": selected, "left_out": left_out, **failed}
    write_json(out / "compare.json", about)
    write_text(out / "rows.csv", to_csv(rows, list(COLUMNS)))
    for name, text in derived(suite, rows, ranked).items():
        write_text(out / name, text)


def derived(suite: Suite, rows: Sequence[Mapping[str, Any]], ranked: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The text of every table that follows from the rows, by file name."""
    found = {"summary": tables.summary(rows), "ranks": ranked, "published": outcomes(of_the_suite(suite, rows))}
    return {**{f"{name}.csv": table(content) for name, content in found.items()}, "table.tex": tables.latex(rows)}


def of_the_suite(suite: Suite, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows on scenes of the suite itself. Published claims are about those, not about the user's scenes."""
    known = SUITES[suite.name].scenes
    return [row for row in rows if known.get(row["scene"]) == suite.scenes[row["scene"]]]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """CSV with the columns of the first row; empty without rows."""
    return to_csv([dict(row) for row in rows], list(rows[0]) if rows else [])


def draw(store: Store, out: Path, rows: list[dict[str, Any]], ranked: list[dict[str, Any]]) -> list[Path]:
    """Draw all figures. Returns the PNG files."""
    drawn = {"heat_map": figures.heat_map(rows)}
    if any(row["status"] == Status.DONE for row in rows):
        drawn |= {"cost": figures.cost(rows), "ranks": figures.rank_chart(ranked)}
    if any(row["id_error"] is not None for row in rows):
        drawn["errors"] = figures.errors(rows)
    written = [_written(figure, out, f"{name}.{ending}") for name, figure in drawn.items() for ending in ("pdf", "png")]
    for one in gallery.galleries(store, rows):
        written.append(_written(gallery.draw(one), out, f"outputs_{one.scene}_{one.split}.png"))
    return [path for path in written if path.suffix == ".png"]


def _written(figure: Figure, out: Path, name: str) -> Path:
    path = inside(out, "figures") / name
    write_figure(figure, path, dpi=DPI, bbox_inches="tight")
    return path
