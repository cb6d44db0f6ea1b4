"""All runs of a store at a glance: what run.json says of each, checked."""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recombine.core.errors import InputError, StoreError
from recombine.core.files import inside, parse_json, read_plain
from recombine.runs.facts import check_belongs, read_facts
from recombine.runs.identity import StoredNames, is_config
from recombine.runs.layout import CHECKPOINT, CONFIG, RUN, RUN_ID
from recombine.runs.status import RunState, RunStatus
from recombine.training.checkpoint import steps_done

FINISHED = RunStatus(RunState.FINISHED)


@dataclass(frozen=True)
class ListedRun:
    """A row of a listing.

    Attributes:
        id: The run.
        status: What there is of it.
        config: Its configuration; empty if it is damaged.
        summary: id_mse, ood_mse, … of a finished run.
        name: What it was saved under; empty if it was trained from its configuration.
        steps: How many steps it was trained for, if it is finished.
        seconds: How long that took.
    """

    id: str
    status: RunStatus
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, float | None] = field(default_factory=dict)
    name: str = ""
    steps: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Everything in one mapping; a metric never takes the place of a fact."""
        named = {"name": self.name} if self.name else {}
        return {**self.summary, "run": self.id, **named, **self.status.to_json(), "config": self.config}


def run_ids(root: Path) -> list[str]:
    """All runs of a folder, finished or not; links with the name of a run are listed too, as damaged runs."""
    if not root.is_dir():
        return []
    with os.scandir(root) as entries:
        return sorted(
            entry.name
            for entry in entries
            if RUN_ID.fullmatch(entry.name) and (entry.is_dir(follow_symlinks=False) or entry.is_symlink())
        )


def listed_runs(root: Path) -> list[ListedRun]:
    """Every run of a folder. One that is damaged keeps no other from being listed."""
    names, collecting = StoredNames(), gc.isenabled()
    gc.disable()  # it would look through thousands of rows again and again, none of which is garbage
    try:
        return [listed_run(root, run, names) for run in run_ids(root)]
    finally:
        if collecting:
            gc.enable()


def listed_run(root: Path, run: str, names: StoredNames | None = None) -> ListedRun:
    """One run. Its record and configuration are checked, its other files are not: they are when they are read."""
    names = names or StoredNames()
    what = f"{root}/{run}/{RUN}"
    try:
        if os.path.islink(f"{root}/{run}"):
            raise StoreError(f"{root}/{run} is a symbolic link, so it is not followed. Remove it.")
        try:  # most runs are finished, and there may be thousands: look once
            content = read_plain(what)
        except FileNotFoundError:
            return _unfinished(root, run, names)
        facts = read_facts(content, what)
        check_belongs(facts, run, what, names)
        return ListedRun(
            run, FINISHED, facts["config"], facts["summary"], facts.get("name", ""), facts["steps"], facts["seconds"]
        )
    except InputError as error:
        return ListedRun(run, RunStatus(RunState.DAMAGED, str(error)))


def _unfinished(root: Path, run: str, names: StoredNames) -> ListedRun:
    path = root / run / CONFIG
    try:
        config = parse_json(read_plain(path), path)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing.") from None
    if not is_config(config) or not names.match(config, run):
        raise StoreError(f"{path} has the configuration of another run than {run}.")
    return ListedRun(run, RunStatus.of_step(steps_done(inside(root, run, CHECKPOINT))), config)
