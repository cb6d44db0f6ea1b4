"""sweep.json: which runs a folder is to hold, and which versions made it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recombine.core.errors import LockHeld, StoreError
from recombine.core.files import read_json, write_json
from recombine.core.lock import Lock
from recombine.runs.config import RunConfig
from recombine.runs.store import Store

FORMAT = "recombine-sweep-1"
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
    if not named or not isinstance(content.get("versions"), dict):
        raise StoreError(f"{path} is damaged: its list of runs or versions is missing. Delete it and sweep again.")
    return content


def check_versions(store: Store, configs: Sequence[RunConfig], any_version: bool = False) -> None:
    """Refuse a folder whose runs were made by other versions, unless they may be mixed."""
    known = read(store.root)
    if any_version:
        return
    made: dict[str, dict[str, str]] = {NAME: known["versions"]} if known else {}
    for config in configs:
        if store.is_finished(config) and not unreadable(store, config):
            made[f"run {config.hash}"] = store.facts(config.hash).get("versions", {})
    now = versions()
    for what, found in made.items():
        differing = [
            f"{name} {found.get(name)} there, {now[name]} here" for name in now if found.get(name) != now[name]
        ]
        if differing:
            raise StoreError(
                f"{store.root} was made by another version ({what}: {'; '.join(differing)}), so that new runs may not "
                "be comparable with those in it. Choose another --out, or mix them with --any-version."
            )


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
        known = read(store.root) or {"format": FORMAT, "versions": versions(), "runs": []}
        runs = [*dict.fromkeys([*known["runs"], *(config.hash for config in configs)])]
        if runs != known["runs"]:
            write_json(store.root / NAME, {**known, "runs": runs})
    finally:
        lock.release()
