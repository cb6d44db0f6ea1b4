"""How far a case gets: which of the points that stand for the work behind the first checks it passes."""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any

POINTS = {  # what is called when a case has passed the first checks, by the module that calls it
    "recombine.runs.config:RunConfig.check": "built",  # every setting is valid; do the parts fit together?
    "recombine.runs.store:train_group": "trains",
    "recombine.runs.listing:check_belongs": "record read",  # run.json agrees with itself; is it this run's?
    "recombine.runs.store:check_belongs": "record read",
    "recombine.runs.removal:check_removable": "run chosen",
    "recombine.runs.stored:StoredRun.verify": "verified",
    "recombine.diagnostics.diagnosis_files:_holdout": "diagnosis read",
    "recombine.diagnostics.diagnose:refused_batch": "model called",  # it gives tensors; do they fit?
    "recombine.diagnostics.diagnose:compute_parts": "computes",
    "recombine.report.page:build": "page",
    "recombine.sweeps.planning:batches": "planned",
    "recombine.core.datasets.source:Source.__post_init__": "data opened",
}
_told: set[str] = set()
_pipe: list[int] = []


def install() -> list[str]:
    """Wrap the points in this process, before it forks; returns those that do not exist."""
    missing = []
    for place, name in POINTS.items():
        module, _, path = place.partition(":")
        try:
            owner: Any = importlib.import_module(module)
            *outer, last = path.split(".")
            for part in outer:
                owner = getattr(owner, part)
            setattr(owner, last, _wrapped(getattr(owner, last), name))
        except (ImportError, AttributeError):
            missing.append(place)
    return missing


def _wrapped(function: Any, name: str) -> Any:
    @functools.wraps(function)
    def passed(*args: Any, **given: Any) -> Any:
        if name not in _told and _pipe:
            _told.add(name)
            os.write(_pipe[0], f"{name}\n".encode())
        return function(*args, **given)

    return passed


def tell(pipe: int) -> None:
    """From now on points that are passed are written to a pipe; for a forked child."""
    _pipe[:] = [pipe]
    _told.clear()
