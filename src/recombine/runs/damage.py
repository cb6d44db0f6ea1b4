"""Reports damaged runs and marks them to be trained again.

Each damaged run is reported on one line. If there are many, a single line refers to a file with the details.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recombine.core.errors import LockHeld, StoreError
from recombine.core.files import write_json
from recombine.runs.facts import AGAIN

if TYPE_CHECKING:
    from recombine.runs.config import RunConfig
    from recombine.runs.store import Store

MOST_NAMED = 10
DETAILS = "damaged-runs.json"


def damage_lines(root: Path, damaged: Mapping[str, str], *, write: bool = True) -> list[str]:
    """Describe the damaged runs of a store.

    Args:
        root: Folder of the store.
        damaged: Maps ids of damaged runs to the reason.
        write: If there are more than `MOST_NAMED` runs, write the reasons to the file `DETAILS` in the store.
    """
    if len(damaged) <= MOST_NAMED:
        return [f"Run {run} is damaged: {reason}" for run, reason in damaged.items()]
    where = f"see `recombine runs list --out {root} --json` for the reasons"
    with contextlib.suppress(StoreError):  # the store may be read-only
        if write:
            write_json(root / DETAILS, dict(damaged))
            where = f"see {root / DETAILS} for the reasons"
    return [f"{len(damaged)} runs are damaged, for example {next(iter(damaged))}; {where}."]


def reopen_damaged(store: Store, configs: Sequence[RunConfig]) -> list[str]:
    """Mark finished runs as unfinished if a file is missing, was changed or belongs to another run.

    Returns lines that describe them.
    """
    damaged: dict[str, str] = {}
    for config in configs:
        damage = store.damage(config) if store.is_finished(config) else None
        if damage is not None:
            with contextlib.suppress(LockHeld):  # another process is reopening the run
                store.reopen(config)
                damaged[config.hash] = damage.removesuffix(AGAIN).rstrip()
    return [f"Training again: {line}" for line in damage_lines(store.root, damaged)]
