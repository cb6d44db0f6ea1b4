"""recombine: study compositional generalization.

    import recombine as rc

    space = rc.FactorSpace(x=28, y=28)
    task = rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.centre(space, 6, 22))
    model = rc.decoders.CNN(task, depth=4, width=64)
    run = rc.train(model, task, seed=0)
    run.scores.summary()

Parts load when first used, so that importing the package, and the command line's --help, stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from recombine import (
        decoders,
        diagnostics,
        encodings,
        errors,
        factors,
        figures,
        holdouts,
        scenes,
        store,
        sweeps,
        training,
    )
    from recombine.config import RunConfig
    from recombine.diagnostics.diagnosis import Diagnosis, diagnose
    from recombine.diagnostics.scores import score
    from recombine.factors import FactorSpace
    from recombine.report.notebook import explore
    from recombine.store import Store
    from recombine.task import Task
    from recombine.training.loop import train, train_seeds
    from recombine.training.recipe import recipe

_MODULES = (
    "decoders", "diagnostics", "encodings", "errors", "factors", "figures", "holdouts", "scenes", "store", "sweeps",
    "training",
)  # fmt: skip
_HOME = {
    "Diagnosis": "recombine.diagnostics.diagnosis",
    "FactorSpace": "recombine.factors",
    "RunConfig": "recombine.config",
    "Store": "recombine.store",
    "Task": "recombine.task",
    "diagnose": "recombine.diagnostics.diagnosis",
    "explore": "recombine.report.notebook",
    "recipe": "recombine.training.recipe",
    "score": "recombine.diagnostics.scores",
    "train": "recombine.training.loop",
    "train_seeds": "recombine.training.loop",
}

__all__ = [
    "Diagnosis", "FactorSpace", "RunConfig", "Store", "Task", "__version__", "decoders", "diagnose",
    "diagnostics", "encodings", "errors", "explore", "factors", "figures", "holdouts", "recipe", "scenes", "score",
    "store", "sweeps", "train", "train_seeds", "training",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"recombine.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'recombine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
