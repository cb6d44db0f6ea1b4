"""Tidy rows of a comparison, read from the store, and the selection of each remedy's settings by its trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from recombine.core.errors import StoreError
from recombine.core.holdouts import HOLDOUTS
from recombine.core.statistics import median
from recombine.diagnostics.cells.classes import CellClass
from recombine.diagnostics.verdict.judge import wilson
from recombine.diagnostics.verdict.kinds import VerdictKind
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.runs.stored import StoredRun
from recombine.studies.compare.planning import Entry, Status, facts_of
from recombine.studies.compare.remedy import REMEDIES, Block
from recombine.studies.framework.inference import mean_interval
from recombine.training.training_set import placed_sources

COLUMNS = (
    "remedy", "block", "control", "scene", "split", "seed", "status", "reason", "right", "right_low", "right_high",
    "right_trained", "verdict", "failing", "id_error", "ood_error", "id_mse", "ood_mse", "parameters", "steps", "batch",
    "memory_mb", "pictures", "seconds", "trial", "held_out", "value_coverage", "covered_order", "pixel_coverage", "run",
)  # fmt: skip


def inner_error(store: Store, trial: RunConfig, outer: Mapping[str, Any]) -> float:
    """Mean squared error on the cells that only the inner hold-out of a trial holds out; ∞ if the trial failed.

    The cells of the outer hold-out, on which results are reported, are not used.
    """
    if not store.is_finished(trial):
        return math.inf
    scores = store.load(trial.hash).scores
    space = scores.holdout.space
    held = HOLDOUTS.build(dict(outer), space)
    inner = (scores.holdout.ood_mask & held.id_mask).ravel()
    error = float(np.mean(scores.columns["mse"][inner])) if inner.any() else math.inf
    return error if math.isfinite(error) else math.inf


def best_trial(store: Store, entry: Entry) -> int:
    """The trial with the lowest inner error; the first trial if all failed."""
    assert entry.base is not None
    outer, errors = entry.base["holdout"], []
    for trial in entry.trials:
        try:
            errors.append(inner_error(store, trial, outer))
        except (Exception, SystemExit):
            if not REMEDIES.is_foreign(entry.remedy):
                raise
            errors.append(math.inf)
    return int(np.argmin(errors))


def can_be_diagnosed(store: Store, config: RunConfig) -> bool:
    """Whether a run is finished and its model does not give the same output for every code.

    A model of a plug-in that raises counts as one that can: its diagnosis will state the error.
    """
    if not store.is_finished(config):
        return False
    try:
        return _constant(store.load(config.hash)) is None
    except (Exception, SystemExit):
        return True


def row_of(
    store: Store, entry: Entry, seed: int, trial: int | None, facts: Mapping[str, Any], failures: Mapping[str, str]
) -> dict[str, Any]:
    """The tidy row of a remedy, scene, split and seed."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {
        "remedy": entry.remedy.name,
        "block": str(entry.remedy.block),
        "control": entry.remedy.control,
        "scene": entry.scene,
        "split": entry.split,
        "seed": seed,
        **facts,
    }
    if entry.status is not None or trial is None:
        return row | {"status": str(entry.status), "reason": entry.reason}
    config = entry.final(trial, seed)
    row |= {"run": config.hash, "trial": trial, "parameters": entry.parameters, "memory_mb": entry.memory}
    row |= {"batch": config.training["batch"]}
    row |= {"steps": config.training["steps"], "status": str(Status.FAILED)}
    run, judged, why = None, None, failures.get(config.hash, "The run or its diagnosis is missing.")
    try:
        run = store.load(config.hash) if store.is_finished(config) else None
        judged = None if run is None else _judged(run) or _constant(run)
        if run is not None:
            row["pictures"] = sum(len(placed.source) for placed in placed_sources(run.task, config.recipe()))
            row |= facts_of(run.holdout, run.task.scene) if entry.remedy.released else {}  # its split is another one
    except (Exception, SystemExit) as error:
        if not REMEDIES.is_foreign(entry.remedy):
            raise
        why = f"{type(error).__name__}: {error}"
    if run is None or judged is None:
        return row | {"reason": why}
    summary = run.summary
    return row | {
        "status": str(Status.DONE),
        **judged,
        "id_mse": summary.get("id_mse"),
        "ood_mse": summary.get("ood_mse"),
        "seconds": run.facts["seconds"],
    }


def _judged(run: StoredRun) -> dict[str, Any] | None:
    """The stored verdict of a run; None if no verdict is stored for its current weights."""
    try:
        verdict = run.load_diagnosis(partial=True).verdict.to_json()
    except StoreError:
        return None
    if verdict["right"] is None:
        return None
    low, high = verdict["interval"]
    return {
        "right": verdict["right"],
        "right_low": low,
        "right_high": high,
        "right_trained": verdict["trained"].get(CellClass.RIGHT, 0.0),
        "verdict": verdict["kind"],
        "failing": " ".join(verdict["failing"]),
        "id_error": verdict["id_error"],
        "ood_error": verdict["ood_error"],
    }


def _constant(run: StoredRun) -> dict[str, Any] | None:
    """The row of a model that gives the same output for every code: none of its unseen cells is correct.

    Such models cannot be diagnosed. They still count, because leaving them out would favour remedies that are hard to
    train. Returns None for any other model.
    """
    task, cells = run.task, torch.arange(len(run.holdout.space))
    with torch.no_grad():
        outputs = run.model(task.inputs(task.space.values(cells)))
    if not torch.equal(outputs, outputs[:1].expand_as(outputs)):
        return None
    low, high = wilson(0.0, int(run.holdout.n_ood))
    shares = {"right": 0.0, "right_low": low, "right_high": high, "right_trained": 0.0}
    return {**shares, "verdict": str(VerdictKind.NOT_LEARNT), "failing": ""}


Place = tuple[str, str, str]  # remedy, scene, split


def over_seeds(rows: Sequence[Mapping[str, Any]]) -> dict[Place, list[Mapping[str, Any]]]:
    """Map (remedy, scene, split) to the rows of its finished runs. Combinations without such runs are omitted."""
    found: dict[Place, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["status"] == Status.DONE:
            found.setdefault((row["remedy"], row["scene"], row["split"]), []).append(row)
    return found


def means(rows: Sequence[Mapping[str, Any]], column: str) -> dict[Place, float]:
    """Map (remedy, scene, split) to the mean of a column over seeds. Combinations without values are omitted."""
    found = {place: [r[column] for r in group if r[column] is not None] for place, group in over_seeds(rows).items()}
    return {place: float(np.mean(values)) for place, values in found.items() if values}


def ratios(rows: Sequence[Mapping[str, Any]]) -> dict[Place, float]:
    """Map (remedy, scene, split) to the median over seeds of OOD over ID error."""
    found = {
        place: [r["ood_error"] / r["id_error"] for r in group if r["id_error"]]
        for place, group in over_seeds(rows).items()
    }
    return {place: median(values) for place, values in found.items() if values}


def learnt(rows: Sequence[Mapping[str, Any]]) -> dict[Place, float]:
    """Map (remedy, scene, split) to the share of seeds that have learnt their trained cells."""
    return {
        place: float(np.mean([row["verdict"] != VerdictKind.NOT_LEARNT for row in group]))
        for place, group in over_seeds(rows).items()
    }


def ranks(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mean rank of every remedy of the equal-budget block over scenes and splits, with Student's 95 % interval over
    seeds.

    Rank 1 has the largest share of correct unseen cells; ties share the mean of their ranks. Scenes and splits that
    exclude a remedy count only for the others.
    """
    by_seed: dict[int, dict[str, list[float]]] = {}
    done = [r for r in rows if r["status"] == Status.DONE and r["block"] == Block.EQUAL and r["right"] is not None]
    for seed in sorted({row["seed"] for row in done}):
        for task in sorted({(row["scene"], row["split"]) for row in done}):
            here = {r["remedy"]: r["right"] for r in done if (r["seed"], r["scene"], r["split"]) == (seed, *task)}
            for remedy, share in here.items():
                above = sum(other > share for other in here.values())
                ties = sum(other == share for other in here.values())
                by_seed.setdefault(seed, {}).setdefault(remedy, []).append(above + (ties + 1) / 2)
    found = []
    for remedy in dict.fromkeys(row["remedy"] for row in done):
        each = [float(np.mean(ranked[remedy])) for ranked in by_seed.values() if remedy in ranked]
        mean, low, high = mean_interval(each)
        interval = {"low": low, "high": high} if len(each) > 1 else {"low": None, "high": None}
        found.append({"remedy": remedy, "mean_rank": mean, **interval, "seeds": len(each)})
    return sorted(found, key=lambda row: row["mean_rank"])
