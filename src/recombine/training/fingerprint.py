"""The fingerprint of a run: a hash of everything that the rest of its training depends on."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from torch import Tensor

from recombine.core.files import digest
from recombine.training.trainer import Trainer

DEEPEST = 8  # maximum nesting of lists


def fingerprint(trainer: Trainer, index: int) -> str:
    """Fingerprint of one seed: its recipe, task, model, loss, optimizer and terms."""
    setup, task = trainer.setup, trainer.setup.task
    shapes = {name: list(t.shape) for name, t in trainer.program.tensors(index).items()}
    described = (trainer.models[index], task.scene, task.encoding, setup.loss, setup.optimizer, *setup.terms)
    parts = [trainer.seeds[index], setup.training.model_dump(), *map(settings, described)]
    parts += [task.holdout.hash, task.inverse, shapes, trainer.program.objective.names]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def settings(part: object) -> list[Any]:
    """The settings of an object: its configuration, and public attributes that are plain values or tensors."""
    public = {k: v for k, v in getattr(part, "__dict__", {}).items() if not k.startswith("_") and k != "training"}
    told = {name: _told(value) for name, value in {**public, "config": getattr(part, "config", None)}.items()}
    name = getattr(part, "__qualname__", type(part).__qualname__)  # the name of a function, else of the class
    return [name, {name: text for name, text in told.items() if text is not None}]


def _told(value: object, depth: int = DEEPEST) -> str | None:
    """Text of numbers, strings and arrays, also inside lists and dictionaries; None for anything else."""
    if isinstance(value, Tensor):
        return digest({"": value.detach().cpu()}, {})
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, list | tuple | dict) and depth:
        entries = [_told(entry, depth - 1) for entry in (value.items() if isinstance(value, dict) else value)]
        return None if None in entries else repr(entries)
    return None
