"""Whether a network has learnt its training examples. Untrained networks do not decide claims about trained ones.

A network *has learnt* if its error on the trained cells is at most 5 % of the variance of the true images and it places
99 % of them correctly. Networks trained on single-factor scenes have seen few cells or none. For them, the error is the
loss at the end of training relative to the variance of these scenes.

If the published training length does not suffice, a study requests runs of growing length until one has learnt
(`until_learnt`), and keeps the published one beside it. Only this criterion selects lengths, never the OOD cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from recombine.runs.config import RunConfig
from recombine.runs.store import StoredRun
from recombine.studies.framework.study import Runs
from recombine.studies.framework.verdicts import Evidence

Rows = list[dict[str, Any]]
LEAST_ERROR = 0.05  # maximum, relative to the variance of the images
LEAST_PLACED = 0.99


def learning(run: StoredRun) -> dict[str, Any]:
    """Columns of a row: `learnt`, the relative error that decides it, and the number of steps."""
    if run.config.training["examples"].get("single_factor"):
        error, placed = _training_error(run), None
    else:
        error, placed = run.summary.get("id_relative_error"), run.summary.get("id_localization")
    learnt = error is not None and error <= LEAST_ERROR and (placed is None or placed >= LEAST_PLACED)
    return {"learnt": learnt, "trained_error": math.nan if error is None else error, "steps": run.facts["steps"]}


def _training_error(run: StoredRun) -> float:
    """Loss over the last 5 % of training, relative to the variance of the single-factor scenes."""
    from recombine.training.examples.single_factor import single_factor_values

    images = run.task.scene(*single_factor_values(run.task.space)).flatten(1).double()
    variance = float((images - images.mean(0)).square().mean())
    return float(run.losses[-max(1, len(run.losses) // 20) :, 0].double().mean()) / variance


def until_learnt(runs: Runs, lengths: Sequence[Any], config: Callable[[Any], RunConfig]) -> list[RunConfig]:
    """The runs of growing length up to the first one that has learnt or is not finished yet."""
    asked = []
    for length in lengths:
        asked.append(config(length))
        run = runs.get(asked[-1])
        if run is None or learning(run)["learnt"]:
            break
    return asked


def longer(config: RunConfig, times: int) -> RunConfig:
    """The same run with `times` as many epochs, or steps if the recipe counts steps."""
    length = "steps" if config.training["steps"] is not None else "epochs"
    return RunConfig.parse([f"training.{length}={times * config.training[length]}"], config.to_dict())


def ladders(runs: Runs, wanted: Mapping[Any, RunConfig], lengths: Sequence[int]) -> dict[Any, list[RunConfig]]:
    """Map labels to ladders: runs of growing length, up to the first one that has learnt or is not finished yet."""
    return {label: until_learnt(runs, lengths, partial(longer, config)) for label, config in wanted.items()}


def all_lengths(ladders: Mapping[Any, Sequence[RunConfig]]) -> list[RunConfig]:
    """The runs of all ladders as one list."""
    return [config for ladder in ladders.values() for config in ladder]


def last_steps(ladders: Mapping[Any, Sequence[RunConfig]]) -> dict[Any, RunConfig]:
    """Map labels to the longest run of their ladder."""
    return {label: ladder[-1] for label, ladder in ladders.items()}


def evidence(groups: Mapping[int, Rows], number: Callable[[Rows], float], *, runs: Callable[[Rows], Rows]) -> Evidence:
    """One number per seed from the rows of its runs. Seeds with a network that has not learnt are left out and listed.

    Args:
        groups: Maps seeds to rows.
        number: Computes the number of a seed from its rows.
        runs: Selects the rows that say whether the seed's networks have learnt (columns of `learning`).
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
    """Map seeds to their rows, for seeds whose rows are complete."""
    groups: dict[int, Rows] = {}
    for row in rows:
        groups.setdefault(row["seed"], []).append(row)
    return {seed: group for seed, group in sorted(groups.items()) if complete(group)}
