"""Reports of damaged runs: one line each if they are few, one line and a file with the details if they are many."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recombine.core.errors import StoreError
from recombine.core.files import write_json

MOST_NAMED = 10
DETAILS = "damaged-runs.json"


def damage_lines(root: Path, damaged: Mapping[str, str]) -> list[str]:
    """Describe the damaged runs of a store, given with their reasons.

    If there are more than `MOST_NAMED`, only their number is given, and the reasons are written to `DETAILS` in the
    store.
    """
    if len(damaged) <= MOST_NAMED:
        return [f"Run {run} is damaged: {reason}" for run, reason in damaged.items()]
    try:
        write_json(root / DETAILS, dict(damaged))
        where = f"see {root / DETAILS} for the reasons"
    except StoreError:  # a read-only store
        where = f"see `recombine runs list --out {root} --json` for the reasons"
    return [f"{len(damaged)} runs are damaged, the first is {next(iter(damaged))}; {where}."]
