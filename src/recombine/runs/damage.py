"""Telling about damaged runs: each by itself if they are few, one line and a file with the details if they are many."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recombine.core.errors import StoreError
from recombine.core.files import write_json

MOST_NAMED = 10
DETAILS = "damaged-runs.json"


def damage_lines(root: Path, damaged: Mapping[str, str]) -> list[str]:
    """Lines for people about damaged runs of a store, given with their reasons.

    Of more than `MOST_NAMED` runs only the number is told; the reasons are written to `DETAILS` in the store's folder.
    """
    if len(damaged) <= MOST_NAMED:
        return [f"Run {run} is damaged: {reason}" for run, reason in damaged.items()]
    try:
        write_json(root / DETAILS, dict(damaged))
        where = f"{root / DETAILS} says why"
    except StoreError:  # a store that may only be read
        where = f"`recombine runs list --out {root} --json` says why"
    return [f"{len(damaged)} runs are damaged, the first is {next(iter(damaged))}; {where}."]
