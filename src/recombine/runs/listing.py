"""A listing of all runs of a store, from their checked run.json files."""

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
        id: Id of the run.
        status: State of the run.
        config: Its configuration; empty if the run is damaged.
        summary: id_mse, ood_mse, … of a finished run.
        name: The name it was saved under; empty if it was trained from its configuration.
        steps: Number of training steps of a finished run.
        seconds: Duration of the training.
    """

    id: str
    status: RunStatus
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, float | None] = field(default_factory=dict)
    name: str = ""
    steps: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """All fields in one mapping. Metrics do not overwrite the other fields."""
        named = {"name": self.name} if self.name else {}
        return {**self.summary, "run": self.id, **named, **self.status.to_json(), "config": self.config}


def run_ids(root: Path) -> list[str]:
    """Ids of all runs of a folder, finished or not. Links with the name of a run are included and count as damaged."""
    if not root.is_dir():
        return []
    with os.scandir(root) as entries:
        return sorted(
            entry.name
            for entry in entries
            if RUN_ID.fullmatch(entry.name) and (entry.is_dir(follow_symlinks=False) or entry.is_symlink())
        )


def listed_runs(root: Path) -> list[ListedRun]:
    """List every run of a folder. A damaged run does not prevent the others from being listed."""
    names, collecting = StoredNames(), gc.isenabled()
    gc.disable()  # the garbage collector would repeatedly traverse thousands of live rows
    try:
        return [listed_run(root, run, names) for run in run_ids(root)]
    finally:
        if collecting:
            gc.enable()


def listed_run(root: Path, run: str, names: StoredNames | None = None) -> ListedRun:
    """List one run. Its record and configuration are checked; other files are checked when they are read."""
    names = names or StoredNames()
    what = f"{root}/{run}/{RUN}"
    try:
        if os.path.islink(f"{root}/{run}"):
            raise StoreError(f"{root}/{run} is a symbolic link, and recombine does not follow links. Remove it.")
        try:  # reading directly is faster than checking first that the run is finished
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
        raise StoreError(f"{path} contains a configuration that does not belong to run {run}.")
    return ListedRun(run, RunStatus.of_step(steps_done(inside(root, run, CHECKPOINT))), config)
