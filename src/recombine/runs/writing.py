"""Writes a finished run. All files are written to a temporary folder first and then moved, run.json last."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

import recombine
from recombine.core.errors import DamagedError, StoreError
from recombine.core.files import (
    file_digest,
    inside,
    set_aside,
    write_bytes,
    write_json,
    write_tensors,
    write_text,
)
from recombine.models.adapted import class_name
from recombine.models.decoders import Decoder
from recombine.runs.config import RunConfig
from recombine.runs.facts import FORMAT, check_belongs, read_facts, run_digest
from recombine.runs.identity import StoredNames
from recombine.runs.layout import CHECKPOINT, CONFIG, FOLDERS, LOCK, NEW, OUTPUTS, RESULTS, RUN
from recombine.runs.named import MODULE, NamedConfig, grid_of, outputs_of
from recombine.runs.run import Run
from recombine.training.checkpoint import discard


def write_run(folder: Path, config: RunConfig, run: Run) -> None:
    """Write a finished run. The caller must hold its lock."""
    with staging(folder) as new:
        write_json(new / CONFIG, config.to_dict())
        _write_model(run.model, new / "model")
        if isinstance(config, NamedConfig):
            write_tensors(new / OUTPUTS, outputs_of(run.model, run.task))
        write_text(new / "scores.csv", run.scores.to_csv())
        write_text(new / "history.jsonl", "".join(json.dumps(row, allow_nan=False) + "\n" for row in run.history))
        write_tensors(new / "losses.safetensors", {"losses": run.losses})
        digests = {name: file_digest(new / name) for name in (*RESULTS, OUTPUTS) if (new / name).exists()}
        facts = {**_facts(config, run), "files": digests}
        if isinstance(config, NamedConfig):
            facts |= {"name": config.name, "grid": grid_of(run.task.holdout)}
        write_json(new / RUN, {**facts, "digest": run_digest(facts)})


def _facts(config: RunConfig, run: Run) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "run": config.hash,
        "config": config.to_dict(),
        "summary": run.scores.summary().to_json(),
        "steps": run.steps,
        "stopped_early": run.stopped_early,
        "loss_names": run.loss_names,
        "described": run.model.describe(run.task.space.names) if isinstance(run.model, Decoder) else {},
        "seconds": round(run.seconds, 3),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": str(next((p.device for p in run.model.parameters()), "cpu")),
        "threads": torch.get_num_threads(),
        "versions": {
            "recombine": recombine.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "plugins": config.plugins,
    }


def _write_model(model: nn.Module, folder: Path) -> None:
    """Write a decoder with `save_pretrained`, or the weights and class name of any other module."""
    if isinstance(model, Decoder):
        model.save_pretrained(folder)
        return
    write_tensors(folder / "model.safetensors", {k: v.detach().clone() for k, v in model.state_dict().items()})
    write_json(folder / "config.json", {"kind": MODULE, "class": class_name(model)})


def add_run(folder: Path, config: RunConfig, files: Mapping[str, bytes]) -> None:
    """Add a run that was finished on another machine, given as the content of its files.

    The caller must hold the lock of the run. The files are untrusted: only files of a run that match their digests are
    accepted.
    """
    what = f"The received result of run {config.hash}"
    if set(files) != {*RESULTS, RUN}:
        raise DamagedError(f"{what} does not have the files of a run. Got {', '.join(sorted(files))}.")
    facts = read_facts(files[RUN], what)
    check_belongs(facts, config.hash, what, StoredNames())
    if facts["files"] != {name: hashlib.sha256(files[name]).hexdigest() for name in RESULTS}:
        raise DamagedError(f"{what} is damaged. A file does not match its digest.")
    with staging(folder) as new:
        for name, content in files.items():
            write_bytes(new / name, content)


@contextlib.contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """Create an empty folder for new results. They replace the old results once all of them are written.

    If the disk is full, a finished run therefore stays unchanged. run.json is removed first and written last.
    """
    clear_way(folder)
    new = folder / NEW
    shutil.rmtree(new, ignore_errors=True)  # left by a killed process
    try:
        yield new
        clear_way(folder)  # repeated, because the folder may have changed while results were written
        (folder / RUN).unlink(missing_ok=True)
        for name in (*RESULTS, OUTPUTS, RUN):
            if name != OUTPUTS or (new / name).exists():
                (folder / name).parent.mkdir(exist_ok=True)
                os.replace(new / name, folder / name)
    except OSError as error:
        raise StoreError(f"Could not write {folder}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    discard(folder / CHECKPOINT)
    (folder / f"damaged-{CHECKPOINT}").unlink(missing_ok=True)
    for left in (*folder.glob(".*.part"), *folder.glob("model/.*.part")):  # left by killed processes
        if not left.name.startswith(LOCK):
            left.unlink(missing_ok=True)


def clear_way(folder: Path) -> None:
    """Rename anything that blocks the paths of a run's files and folders.

    Links are renamed but not followed, so their targets stay unchanged.
    """
    inside(folder.parent, folder.name)
    for name in (*FOLDERS, *RESULTS, OUTPUTS, RUN, CHECKPOINT, f"next-{CHECKPOINT}"):
        path = folder / name
        fits = path.is_dir() if name in FOLDERS else path.is_file()
        if path.is_symlink() or (not fits and os.path.lexists(path)):
            set_aside(path)
