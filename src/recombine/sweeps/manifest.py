"""sweep.json: the runs that a folder should contain, and the versions and plug-ins that produced it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recombine.core import plugins
from recombine.core.errors import DamagedError, LockHeld, StoreError
from recombine.core.files import inside, read_plain_json, set_aside, write_json
from recombine.core.lock import STALE, Lock
from recombine.core.plugins import PluginState
from recombine.runs.config import RunConfig
from recombine.runs.layout import RUN_ID
from recombine.runs.store import Store

FORMAT = "recombine-sweep-2"
NAME = "sweep.json"
PATIENCE = 2 * STALE  # seconds after which an abandoned lock is certain to be recognized


def versions() -> dict[str, str]:
    """The versions of packages that results depend on in addition to the configuration."""
    import torch

    import recombine

    return {"recombine": recombine.__version__, "torch": torch.__version__}


def read(folder: Path) -> dict[str, Any] | None:
    """The sweep.json of a folder, or None if there is none.

    Raises:
        DamagedError: If it cannot be read. A sweep sets it aside and writes a new one.
        StoreError: If another version wrote it.
    """
    path = inside(folder, NAME)
    if not os.path.lexists(path):
        return None
    content = read_plain_json(path)
    found = content.get("format") if isinstance(content, dict) else None
    if isinstance(found, str) and found.startswith(FORMAT.rstrip("0123456789")) and found != FORMAT:
        raise StoreError(
            f"{path} was written by another version: its format is {found!r}, this version's is {FORMAT!r}. "
            "Choose another --out."
        )
    runs = content.get("runs") if isinstance(content, dict) else None
    named = isinstance(runs, list) and all(isinstance(run, str) and RUN_ID.fullmatch(run) for run in runs)
    if found != FORMAT or not named or not all(isinstance(content.get(key), dict) for key in ("versions", "plugins")):
        raise DamagedError(
            f"{path} is damaged or does not belong to a sweep. Run the sweep again, which renames this file and "
            "writes a new one."
        )
    return content


def heal(folder: Path) -> str:
    """Rename a damaged sweep.json. Returns a message about the damage, or an empty string."""
    try:
        read(folder)
    except DamagedError as error:
        aside = set_aside(folder / NAME)
        return f"{error} It was renamed to {aside.name}."
    return ""


def check_versions(store: Store, configs: Sequence[RunConfig], any_version: bool = False) -> None:
    """Raise if other versions of recombine or of plug-ins made the runs of a folder, unless mixing is allowed."""
    try:
        known = read(store.root)
    except DamagedError:
        known = None
    if any_version:
        return
    made: dict[str, dict[str, Any]] = {NAME: known} if known else {}
    for config in configs:
        if store.is_finished(config):
            with contextlib.suppress(StoreError):  # damaged runs are trained again
                made[f"run {config.hash}"] = store.facts(config.hash)
    now = versions()
    for what, facts in made.items():
        there = facts.get("versions", {})
        differing = [
            f"{name} {there.get(name)} there and {here} here" for name, here in now.items() if there.get(name) != here
        ]
        differing += [f"the plug-in {name} was changed" for name in _changed(plugins.recorded(facts))]
        if differing:
            raise StoreError(
                f"{store.root} was created by another version ({what}: {'; '.join(differing)}), so new runs may not "
                "be comparable with the stored ones. Choose another --out, or allow mixing with --any-version."
            )


def _changed(needed: Mapping[str, str]) -> list[str]:
    return [name for name, state in plugins.states(needed).items() if state == PluginState.CHANGED]


def record(store: Store, configs: Sequence[RunConfig]) -> None:
    """Add runs to sweep.json. Several sweeps can add runs to the same folder."""
    try:
        store.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"Cannot create {store.root}: {error.strerror}. Choose another --out.") from error
    lock = Lock(store.root / f".{NAME}.lock")
    until = time.monotonic() + PATIENCE
    while True:
        try:
            lock.acquire()
            break
        except LockHeld:  # another sweep is recording its runs, which takes milliseconds
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
    try:
        heal(store.root)
        known = read(store.root) or {"format": FORMAT, "versions": versions(), "plugins": {}, "runs": []}
        runs = [*dict.fromkeys([*known["runs"], *(config.hash for config in configs)])]
        needed = dict(known["plugins"])
        for config in configs:
            needed |= config.plugins
        if runs != known["runs"] or needed != known["plugins"]:
            write_json(store.root / NAME, {**known, "plugins": needed, "runs": runs})
    finally:
        lock.release()
