"""Has a network learnt its training examples? Claims about trained networks are not decided by untrained ones.

A network *has learnt* if its error on the trained cells is at most 5 % of the variance of the true images and it puts
99 % of them in the right place. Networks that were trained on single-factor scenes have seen few cells or none; for
them the loss at the end of training, relative to the variance of these scenes, takes the place of the error.

Where the published length of training does not suffice, a study asks for runs of growing length until one has learnt
(`until_learnt`), and keeps the published one beside it. Lengths are chosen by this criterion alone, never by OOD cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from recombine.runs.config import RunConfig
from recombine.runs.store import StoredRun
from recombine.studies.framework.study import Runs
from recombine.studies.framework.verdicts import Evidence

Rows = list[dict[str, Any]]
LEAST_ERROR = 0.05  # relative to the variance of the images
LEAST_PLACED = 0.99


def learning(run: StoredRun) -> dict[str, Any]:
    """Columns of a row: `learnt`, the relative error that decides it, and the steps."""
    if run.config.training["examples"].get("single_factor"):
        error, placed = _training_error(run), None
    else:
        error, placed = run.summary.get("id_relative_error"), run.summary.get("id_localization")
    learnt = error is not None and error <= LEAST_ERROR and (placed is None or placed >= LEAST_PLACED)
    return {"learnt": learnt, "trained_error": math.nan if error is None else error, "steps": run.facts["steps"]}


def _training_error(run: StoredRun) -> float:
    """Loss over the last twentieth of training, relative to the variance of the single-factor scenes."""
    from recombine.training.examples.single_factor import single_factor_values

    images = run.task.scene(*single_factor_values(run.task.space)).flatten(1).double()
    variance = float((images - images.mean(0)).square().mean())
    return float(run.losses[-max(1, len(run.losses) // 20) :, 0].double().mean()) / variance


def until_learnt(runs: Runs, lengths: Sequence[Any], config: Callable[[Any], RunConfig]) -> list[RunConfig]:
    """The runs of growing length up to the first that has learnt, or that is not finished yet."""
    asked = []
    for length in lengths:
        asked.append(config(length))
        run = runs.get(asked[-1])
        if run is None or learning(run)["learnt"]:
            break
    return asked


def evidence(groups: Mapping[int, Rows], number: Callable[[Rows], float], *, runs: Callable[[Rows], Rows]) -> Evidence:
    """A number per seed from the rows of its runs; seeds with a network that has not learnt are left out and named.

    Args:
        groups: Seed → rows.
        number: Rows of a seed → its number.
        runs: Rows of a seed → those that say whether its networks have learnt (columns of `learning`).
    """
    values, left_out = {}, {}
    for seed, rows in groups.items():
        missed = [row for row in runs(rows) if not row["learnt"]]
        if missed:
            worst = max(missed, key=lambda row: row["trained_error"])
            left_out[seed] = (
                f"a network never learnt its training examples (run {worst['run']}, relative error "
                f"{worst['trained_error']:.2g} after {worst['steps']} steps)"
            )
        else:
            values[seed] = float(number(rows))
    return Evidence(values, left_out)


def grouped(rows: Rows, complete: Callable[[Rows], bool] = lambda rows: True) -> dict[int, Rows]:
    """Seed → its rows, for seeds whose rows are complete."""
    groups: dict[int, Rows] = {}
    for row in rows:
        groups.setdefault(row["seed"], []).append(row)
    return {seed: group for seed, group in sorted(groups.items()) if complete(group)}
