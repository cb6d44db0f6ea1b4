"""The file of a checkpoint: one safetensors file per seed, replaced atomically."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from recombine.core.errors import DamagedError, StoreError
from recombine.core.files import read_metadata, read_tensors, write_tensors

FORMAT = "recombine-checkpoint-1"


class DamagedCheckpoint(DamagedError):
    """Training cannot resume from a checkpoint, because it is truncated, was changed, or belongs to another run.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class Snapshot:
    """The complete state of one seed: tensors (weights, optimizer, loss trace, random state) and facts."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]  # step, history, stopping state; JSON


@dataclass(frozen=True)
class Checkpoint:
    """The file of a seed's snapshot, and the fingerprint of the run it belongs to."""

    path: Path
    fingerprint: str

    def check_place(self) -> None:
        """Raise early, before the first save, if the file cannot be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"Cannot write a checkpoint to {self.path}: {error.strerror}.") from error
        if self.path.is_dir():
            raise StoreError(f"A checkpoint must be a file, but {self.path} is a folder. Give the path of a file.")

    def write(self, snapshot: Snapshot) -> None:
        facts = {"format": FORMAT, "fingerprint": self.fingerprint, "facts": json.dumps(snapshot.facts)}
        write_tensors(self.path, snapshot.tensors, facts)

    def prepare(self, snapshot: Snapshot) -> None:
        """Write the snapshot beside the previous one. `adopt` then replaces the previous one."""
        Checkpoint(_next(self.path), self.fingerprint).write(snapshot)

    def adopt(self) -> None:
        os.replace(_next(self.path), self.path)

    def read(self) -> Snapshot | None:
        """The last snapshot, or None if there is none yet."""
        if not self.path.exists():
            return None
        with _damage_of(self.path):
            tensors, metadata = read_tensors(self.path)
        if metadata.get("format") != FORMAT:
            raise DamagedCheckpoint(
                self.path,
                f"{self.path} is not a checkpoint of this version (format {metadata.get('format')!r}, expected "
                f"{FORMAT!r}). Move it away to start again.",
            )
        if metadata.get("fingerprint") != self.fingerprint:
            raise DamagedCheckpoint(
                self.path,
                f"{self.path} belongs to a run with other settings, model or task. Move it away to start again, "
                "or resume with its original settings.",
            )
        return Snapshot(tensors, _facts(self.path, metadata))


def _next(path: Path) -> Path:
    return path.with_name(f"next-{path.name}")


def settle(paths: Sequence[Path]) -> None:
    """Bring seeds that train together to the newest step that all of them have.

    Saving has two phases: first every seed prepares its snapshot, then every seed adopts it. After a kill in between,
    either all seeds have the old snapshot or all can get the new one.
    """
    waiting = {path: steps_done(_next(path)) for path in paths}
    if not any(step is not None for step in waiting.values()):
        return
    common = set.intersection(*({steps_done(path), waiting[path]} - {None} for path in paths))
    for path, step in waiting.items():
        if step is not None and common and step == max(common):
            os.replace(_next(path), path)
        else:
            _next(path).unlink(missing_ok=True)


def discard(path: Path) -> None:
    """Delete a checkpoint, if there is one."""
    path.unlink(missing_ok=True)
    _next(path).unlink(missing_ok=True)


@contextmanager
def _damage_of(path: Path) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise DamagedCheckpoint(path, f"{error} Move it away to start again.") from error


def _facts(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    try:
        facts = json.loads(metadata["facts"])
        return {**facts, "step": int(facts["step"])}
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DamagedCheckpoint(
            path, f"{path} is not a checkpoint, because its metadata cannot be read. Move it away to start again."
        ) from error


def steps_done(path: Path) -> int | None:
    """The step at which a checkpoint was saved; None if there is none. Reads only the header of the file."""
    if not path.exists():
        return None
    with _damage_of(path):
        metadata = read_metadata(path)
    return _facts(path, metadata)["step"]
