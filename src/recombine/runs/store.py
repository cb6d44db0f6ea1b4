"""The run store: a folder with one directory per run, named by the hash of its configuration.

    store = Store("runs")
    [run] = store.train([RunConfig.parse(["decoder.kind=mlp"])])     # a finished run is not trained again
    run.scores.summary(), run.model, run.history

docs/run-files.md lists every file. All files are JSON, CSV or safetensors, so nothing in a store is ever executed.
`run.json` is written last: a run directory without it is unfinished and can be resumed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from recombine.core import plugins
from recombine.core.errors import DamagedError, InputError, StoreError
from recombine.core.files import inside, read_plain
from recombine.core.lock import Lock
from recombine.core.registry import nearest
from recombine.core.task import Task
from recombine.runs import removal
from recombine.runs.config import DEFAULTS, RunConfig
from recombine.runs.facts import AGAIN, check_belongs, lacks_plugin, read_facts
from recombine.runs.identity import StoredNames
from recombine.runs.layout import CHECKPOINT, CONFIG, LOCK, RESULTS, RUN, RUN_ID
from recombine.runs.listing import ListedRun, listed_run, listed_runs, run_ids
from recombine.runs.named import NamedConfig, config_of
from recombine.runs.run import Run
from recombine.runs.status import RunState, RunStatus
from recombine.runs.stored import StoredRun
from recombine.runs.training import How, train_group
from recombine.runs.writing import add_run, clear_way, write_run
from recombine.training.checkpoint import discard, steps_done

ID_PREFIX = re.compile(r"[0-9a-f]{1,16}")
MOST_NAMED = 10  # maximum number of names of runs in an error message
MOST_FILE = 2**33  # maximum bytes of a file that is sent to another machine


def load_run(
    name: str, store: str | Path = "runs", *, module: nn.Module | None = None, task: Task | None = None
) -> StoredRun:
    """Load a stored run by its name, its id or a unique prefix of its id.

    Args:
        name: See `Run.save`. If several seeds share a name, give the id.
        store: The folder of the store.
        module: An instance of the saved class, into which the weights are loaded. Without it, the run still has its
            scores, history, outputs and diagnosis. A module that the weights do not fit is rejected.
        task: The task, if it has custom parts that cannot be built from a configuration.
    """
    where = Store(store)
    rows = where.list()
    found = [row.id for row in rows if name and row.name == name]
    if len(found) > 1:
        raise InputError(f"{len(found)} runs are named {name!r}. Give one of their ids: {', '.join(found)}.", "name")
    if not found and not ID_PREFIX.fullmatch(name):
        known = sorted({row.name for row in rows if row.name})
        named = f"{', '.join(known[:MOST_NAMED]) or 'none'}{', …' * (len(known) > MOST_NAMED)}"
        raise InputError(
            f"No run in {where.root} is named {name!r}{nearest(name, known)}. Names there: {named}. "
            f"`recombine runs list --out {where.root}` shows all runs.",
            "name",
        )
    stored = dataclasses.replace(where.load(found[0] if found else name), module=module, given_task=task)
    if module is not None and stored.has_own_class:
        _ = stored.model  # loads the weights, which raises if they do not fit the module
    return stored


class Store:
    """A folder of runs."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        try:
            str(self.root.absolute()).encode()
        except UnicodeEncodeError:
            raise StoreError(f"The path {str(self.root.absolute())!r} is not valid UTF-8. Choose another.") from None
        try:
            is_file = self.root.exists() and not self.root.is_dir()
        except OSError as error:
            raise StoreError(f"{self.root} cannot be a run store: {error.strerror}. Choose another --out.") from error
        if is_file:
            raise StoreError(f"{self.root} is a file, but a run store must be a folder. Choose another --out.")

    def check_place(self) -> None:
        """Raise if the folder cannot be created or written to. Creates nothing."""
        nearest = next(folder for folder in (self.root, *self.root.absolute().parents) if folder.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            what = "not writable" if nearest.is_dir() else "a file"
            raise StoreError(f"{self.root} cannot be a run store: {nearest} is {what}. Choose another --out.")

    def train(
        self,
        configs: Sequence[RunConfig],
        *,
        force: bool = False,
        device: str = "auto",
        checkpoint_seconds: float = 60.0,
        progress: bool | None = None,
        written: list[str] | None = None,
    ) -> list[StoredRun]:
        """Train every configuration that is not finished yet and return all runs in the given order.

        Configurations that differ only in their seed train together if that is faster. An interrupted run resumes from
        its last checkpoint. An unusable checkpoint is renamed and the run starts again. If a seed diverges, the other
        seeds are still finished and stored.

        Args:
            configs: The configurations. Duplicates are trained once.
            force: Also train runs that are already finished.
            device: "auto", "cpu", "cuda", "cuda:1", "mps".
            checkpoint_seconds: Seconds between checkpoints.
            progress: Show a progress bar; by default only on a terminal.
            written: A list to which the ids of the runs trained by this call are appended. All other runs were finished
                before or by another process.
        """
        groups: dict[str, list[RunConfig]] = {}
        for config in dict.fromkeys(configs):
            if force or not self.is_finished(config):
                groups.setdefault(config.seedless_hash, []).append(config)
        for group in groups.values():
            group[0].check()
        for group in groups.values():
            with contextlib.ExitStack() as stack:
                locks = []
                for config in group:
                    locks.append(self.lock(config))
                    stack.callback(locks[-1].release)
                # another process may have finished some of them before we acquired the locks
                todo = {c: lock for c, lock in zip(group, locks) if force or not self.is_finished(c)}
                if todo:
                    how = How(force=force, device=device, checkpoint_seconds=checkpoint_seconds, progress=progress)
                    train_group(self.root, todo, how, [] if written is None else written)
        return [self.load(config.hash) for config in configs]

    def save(self, run: Run, name: str, *, replace: bool = False) -> StoredRun:
        """Save a run of any model under a name. See `Run.save`."""
        config = config_of(run, name)
        lock = self.lock(config)
        try:
            if self.is_finished(config) and not replace:
                raise StoreError(
                    f"There is already a run named {name!r} with seed {run.seed} in {self.root}. Choose another name "
                    "or replace it with replace=True."
                )
            write_run(self.directory(config), config, run)
            stored = self.load(config.hash)
            if run.diagnosis is not None:
                dataclasses.replace(run.diagnosis, source=stored.source).save(stored.diagnosis_folder)
            return stored
        finally:
            lock.release()

    def add(self, config: RunConfig, files: Mapping[str, bytes], lock: Lock) -> None:
        """Add a run that was finished on another machine, given as the content of its files.

        The caller must hold the lock of the run. The files are untrusted: only files of a run that match their digests
        are accepted.
        """
        lock.check()
        add_run(self.directory(config), config, files)

    def files(self, config: RunConfig) -> dict[str, bytes]:
        """The content of a finished run's files, for `add`."""
        return {
            name: read_plain(inside(self.root, config.hash, *name.split("/")), most=MOST_FILE)
            for name in (*RESULTS, RUN)
        }

    def directory(self, config: RunConfig) -> Path:
        """The folder of a run, whether or not it exists."""
        return self.root / config.hash

    def _checkpoint(self, config: RunConfig) -> Path:
        return inside(self.root, config.hash, CHECKPOINT)

    def is_finished(self, config: RunConfig) -> bool:
        """Whether the run has a run.json. Use `status` or `list` to check whether it is intact."""
        return self._has_record(config.hash)

    def _has_record(self, run: str) -> bool:
        path = self.root / run / RUN
        return path.is_file() and not path.is_symlink() and not path.parent.is_symlink()

    def damage(self, config: RunConfig) -> str | None:
        """Describe the damage of a finished run: a missing, unreadable or changed file. None if the run is intact."""
        try:
            StoredRun(self.directory(config), config, self.facts(config.hash)).verify()
        except InputError as error:
            return str(error)
        return None

    def reopen(self, config: RunConfig) -> None:
        """Mark a run as unfinished, so that it is trained again from the start."""
        lock = self.lock(config)
        try:
            clear_way(self.directory(config))
            (self.directory(config) / RUN).unlink(missing_ok=True)
            discard(self._checkpoint(config))
        finally:
            lock.release()

    def load(self, run: str, *, without_plugins: bool = False) -> StoredRun:
        """Load a finished run by its id or a unique prefix of it.

        Args:
            run: Id of the run.
            without_plugins: Load the run even if its plug-ins are missing. Its stored results can be read, but its task
                and model cannot be built.
        """
        run = self.resolve(run)
        path = inside(self.root, run)
        if not self._has_record(run):
            raise StoreError(
                f"Run {run} is not finished ({self._progress(run)}). Run the same `recombine train` command "
                "again to resume it."
            )
        facts = self.facts(run)
        if without_plugins and lacks_plugin(facts):
            return StoredRun(path, RunConfig(**{name: facts["config"].get(name) for name in DEFAULTS}), facts)
        plugins.require_present(plugins.recorded(facts), f"Run {run}")
        given = facts["config"]
        try:
            config = NamedConfig(**given, name=facts["name"]) if "name" in facts else RunConfig.from_stored(given)
        except InputError as error:
            raise DamagedError(f"The configuration of run {run} is invalid: {error} {AGAIN}") from error
        if config.hash != run:
            raise DamagedError(f"{path / RUN} has the configuration of run {config.hash}. {AGAIN}")
        stored = StoredRun(path, config, facts)
        stored.verified(CONFIG)
        return stored

    def facts(self, run: str) -> dict[str, Any]:
        """The run.json of a finished run. Raises if it is damaged or belongs to another run."""
        run = self.resolve(run)
        path = inside(self.root, run, RUN)
        try:
            facts = read_facts(read_plain(path), str(path))
        except FileNotFoundError:
            raise StoreError(f"{path} is missing, so the run is not finished.") from None
        check_belongs(facts, run, str(path), StoredNames())
        return facts

    def resolve(self, run: str) -> str:
        """The full id of a run from a unique prefix. Raises if no run or several runs match."""
        if not ID_PREFIX.fullmatch(run):
            raise InputError(
                f"The id of a run has up to 16 hexadecimal digits. Got {run!r}. `recombine runs list` shows the ids."
            )
        if RUN_ID.fullmatch(run) and os.path.isdir(self.root / run):
            return run
        found = [name for name in self.ids() if name.startswith(run)]
        if len(found) != 1:
            what = f"{len(found)} runs start with" if found else "There is no run"
            raise InputError(f"{what} {run!r} in {self.root}. `recombine runs list --out {self.root}` shows the ids.")
        return found[0]

    def ids(self) -> list[str]:
        """Ids of all runs, finished or not."""
        return run_ids(self.root)

    def list(self) -> list[ListedRun]:
        """One row per run with id, status, configuration and summary. Damaged runs are marked.

        The record and the configuration of every run are checked. Other files are checked when they are read.
        """
        return listed_runs(self.root)

    def row(self, config: RunConfig) -> ListedRun:
        """The row of a single run, as in `list`."""
        if not os.path.lexists(self.directory(config)):
            return ListedRun(config.hash, RunStatus(RunState.NOT_STARTED), config.to_dict())
        return listed_run(self.root, config.hash)

    def status(self, config: RunConfig) -> RunStatus:
        """The status of a run. All files of a finished run are checked."""
        found = self.row(config).status
        damage = self.damage(config) if found.finished else None
        return found if damage is None else RunStatus(RunState.DAMAGED, damage)

    def _progress(self, run: str) -> RunStatus:
        return RunStatus.of_step(steps_done(inside(self.root, run, CHECKPOINT)))

    def check_removable(self, run: str) -> Path:
        """The directory of a run, finished or not. Raises if it may contain files of other programs."""
        path = self.root / self.resolve(run)
        removal.check_removable(path)
        return path

    def remove(self, run: str) -> Path:
        """Delete a run, finished or not. Raises if its directory may contain files of other programs."""
        path = self.root / self.resolve(run)
        removal.remove_run(path)
        return path

    def lock(self, config: RunConfig) -> Lock:
        """Acquire the lock of a run, so that only one process works on it. Raises LockHeld if another one holds it."""
        folder = inside(self.root, config.hash)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"Cannot create {folder}: {error.strerror}. Choose another --out.") from error
        lock = Lock(folder / LOCK)
        lock.acquire()
        return lock
