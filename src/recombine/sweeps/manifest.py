"""sweep.json: which runs a folder is to hold, and which versions and plug-ins made it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recombine.core import plugins
from recombine.core.errors import LockHeld, StoreError
from recombine.core.files import read_json, write_json
from recombine.core.lock import Lock
from recombine.core.plugins import PluginState
from recombine.runs.config import RunConfig
from recombine.runs.store import Store

FORMAT = "recombine-sweep-2"
NAME = "sweep.json"


def versions() -> dict[str, str]:
    """What results depend on besides the configuration."""
    import torch

    import recombine

    return {"recombine": recombine.__version__, "torch": torch.__version__}


def read(folder: Path) -> dict[str, Any] | None:
    """A folder's sweep.json, or None if there is none; an error if it is no sweep of this version."""
    path = folder / NAME
    if not path.exists():
        return None
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise StoreError(
            f"{path} was made by another version: its format is {found!r}, this version's is {FORMAT!r}. "
            "Choose another --out."
        )
    runs = content.get("runs")
    named = isinstance(runs, list) and all(isinstance(run, str) for run in runs)
    if not named or not all(isinstance(content.get(name), dict) for name in ("versions", "plugins")):
        raise StoreError(f"{path} is damaged: it lacks runs, versions or plug-ins. Delete it and sweep again.")
    return content


def check_versions(store: Store, configs: Sequence[RunConfig], any_version: bool = False) -> None:
    """Refuse a folder whose runs were made by other versions, of plug-ins too, unless they may be mixed."""
    known = read(store.root)
    if any_version:
        return
    made: dict[str, dict[str, Any]] = {NAME: known} if known else {}
    for config in configs:
        if store.is_finished(config) and not unreadable(store, config):
            made[f"run {config.hash}"] = store.facts(config.hash)
    now = versions()
    for what, facts in made.items():
        there = facts.get("versions", {})
        differing = [
            f"{name} {there.get(name)} there, {here} here" for name, here in now.items() if there.get(name) != here
        ]
        differing += [f"the plug-in {name} was changed" for name in _changed(plugins.recorded(facts))]
        if differing:
            raise StoreError(
                f"{store.root} was made by another version ({what}: {'; '.join(differing)}), so that new runs may not "
                "be comparable with those in it. Choose another --out, or mix them with --any-version."
            )


def _changed(needed: Mapping[str, str]) -> list[str]:
    return [name for name, state in plugins.states(needed).items() if state == PluginState.CHANGED]


def unreadable(store: Store, config: RunConfig) -> str:
    """Why what a finished run says of itself cannot be read; empty if it can."""
    try:
        store.facts(config.hash)
    except StoreError as error:
        return str(error)
    return ""


def record(store: Store, configs: Sequence[RunConfig]) -> None:
    """Add runs to sweep.json; several sweeps into one folder put theirs together."""
    try:
        store.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"Cannot create {store.root}: {error.strerror}. Choose another --out.") from error
    lock = Lock(store.root / f".{NAME}.lock")
    while True:
        try:
            lock.acquire()
            break
        except LockHeld:  # another sweep records its runs just now, which takes milliseconds
            time.sleep(0.05)
    try:
        known = read(store.root) or {"format": FORMAT, "versions": versions(), "plugins": {}, "runs": []}
        runs = [*dict.fromkeys([*known["runs"], *(config.hash for config in configs)])]
        needed = dict(known["plugins"])
        for config in configs:
            needed |= config.plugins
        if runs != known["runs"] or needed != known["plugins"]:
            write_json(store.root / NAME, {**known, "plugins": needed, "runs": runs})
    finally:
        lock.release()
