"""Has a network learnt its training examples? Claims about trained networks are not decided by untrained ones.

A network *has learnt* if its error on the trained cells is at most 5 % of the variance of the true images and it puts
99 % of them in the right place. Networks that were trained on single-factor scenes alone have seen no cell; for them
the loss at the end of training, relative to the variance of the training images, takes the place of the error.

Where the published length of training does not suffice, a study asks for runs of growing length until one has learnt
(`until_learnt`), and keeps the published one beside it. Lengths are chosen by this criterion alone, never by OOD cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from recombine.runs.config import RunConfig
from recombine.runs.store import StoredRun
from recombine.studies.framework.study import Runs

LEAST_ERROR = 0.05  # relative to the variance of the images
LEAST_PLACED = 0.99


def learning(run: StoredRun) -> dict[str, Any]:
    """Columns of a row: `learnt`, and the relative error that decides it."""
    error = run.summary.get("id_relative_error")
    placed = run.summary.get("id_localization")
    learnt = error is not None and error <= LEAST_ERROR and (placed is None or placed >= LEAST_PLACED)
    return {"learnt": learnt, "id_relative_error": error, "steps": run.facts["steps"]}


def until_learnt(runs: Runs, lengths: Sequence[Any], config: Callable[[Any], RunConfig]) -> list[RunConfig]:
    """The runs of growing length up to the first that has learnt, or that is not finished yet."""
    asked = []
    for length in lengths:
        asked.append(config(length))
        run = runs.get(asked[-1])
        if run is None or learning(run)["learnt"]:
            break
    return asked


def not_learnt(row: dict[str, Any]) -> str:
    """Why a run does not count, from its row; empty if it does."""
    if row["learnt"]:
        return ""
    error = row["id_relative_error"]
    return f"the network never learnt its training examples (relative error {error:.2g} after {row['steps']} steps)"
