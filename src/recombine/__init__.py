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

from recombine.core import hooks

__version__ = "0.2.0"

hooks.provide("write_page", "recombine.report.diagnoses:report_diagnoses")  # for `Run.report`

if TYPE_CHECKING:
    from recombine import diagnostics, sweeps, training
    from recombine import plotting as figures
    from recombine.core import encodings, errors, factors, holdouts, scenes
    from recombine.core.factors import FactorSpace
    from recombine.core.plugins import use
    from recombine.core.task import Task
    from recombine.diagnostics.diagnose import diagnose
    from recombine.diagnostics.diagnosis import Diagnosis
    from recombine.diagnostics.request import DiagnosisRequest
    from recombine.diagnostics.verdict.over_runs import verdict_over
    from recombine.models import decoders
    from recombine.models.adapted import adapt
    from recombine.report.diagnoses import report_diagnoses
    from recombine.report.notebook import explore
    from recombine.runs import store
    from recombine.runs.config import RunConfig
    from recombine.runs.run import Run
    from recombine.runs.store import Store, load_run
    from recombine.runs.train import train, train_seeds
    from recombine.scoring.scores import score
    from recombine.training.recipe import recipe

_HOME = {
    "Diagnosis": "recombine.diagnostics.diagnosis",
    "DiagnosisRequest": "recombine.diagnostics.request",
    "FactorSpace": "recombine.core.factors",
    "Run": "recombine.runs.run",
    "RunConfig": "recombine.runs.config",
    "Store": "recombine.runs.store",
    "Task": "recombine.core.task",
    "adapt": "recombine.models.adapted",
    "diagnose": "recombine.diagnostics.diagnose",
    "explore": "recombine.report.notebook",
    "load_run": "recombine.runs.store",
    "recipe": "recombine.training.recipe",
    "report_diagnoses": "recombine.report.diagnoses",
    "score": "recombine.scoring.scores",
    "train": "recombine.runs.train",
    "train_seeds": "recombine.runs.train",
    "use": "recombine.core.plugins",
    "verdict_over": "recombine.diagnostics.verdict.over_runs",
}
_MODULES = {
    "decoders": "recombine.models.decoders",
    "diagnostics": "recombine.diagnostics",
    "encodings": "recombine.core.encodings",
    "errors": "recombine.core.errors",
    "factors": "recombine.core.factors",
    "figures": "recombine.plotting",
    "holdouts": "recombine.core.holdouts",
    "scenes": "recombine.core.scenes",
    "store": "recombine.runs.store",
    "sweeps": "recombine.sweeps",
    "training": "recombine.training",
}

__all__ = [
    "Diagnosis", "DiagnosisRequest", "FactorSpace", "Run", "RunConfig", "Store", "Task", "__version__", "adapt",
    "decoders", "diagnose", "diagnostics", "encodings", "errors", "explore", "factors", "figures", "holdouts",
    "load_run", "recipe", "report_diagnoses", "scenes", "score", "store", "sweeps", "train", "train_seeds",
    "training", "use", "verdict_over",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'recombine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
