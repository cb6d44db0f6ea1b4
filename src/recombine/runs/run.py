"""A trained model that one can go on with: diagnose it, save it, report on it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recombine.core.hooks import hook
from recombine.models.adapted import class_name
from recombine.training.result import TrainingResult

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis
    from recombine.runs.store import Store
    from recombine.runs.stored import StoredRun


@dataclass(repr=False)
class Run(TrainingResult):
    """A trained model and how it came about, see TrainingResult for its attributes.

        run = rc.train(module, task)
        run.diagnose().verdict
        run.save("runs", name="my model")
        run.report("report.html")

    Attributes:
        diagnosis: What `diagnose` found last; None before.
    """

    diagnosis: Diagnosis | None = field(default=None, init=False)

    @classmethod
    def of(cls, result: TrainingResult) -> Run:
        """Turn the result of the training loop into a run."""
        return cls(**{own.name: getattr(result, own.name) for own in fields(TrainingResult)})

    def diagnose(self, **options: Any) -> Diagnosis:
        """Diagnose the model; options as for `recombine.diagnose` (request, parts, layers, progress, …)."""
        from recombine.diagnostics.diagnose import diagnose

        task = self.task
        target = task.targets if task.inverse else task.scene  # the scene also says how its images are shown
        found = diagnose(self.model, task.space, task.inputs, task.holdout, target=target, **options)
        self.diagnosis = found
        return found

    def save(self, store: Store | str | Path, name: str = "", *, replace: bool = False) -> StoredRun:
        """Keep the run in a store under a name: weights, scores, history, outputs, and the diagnosis if there is one.

        It is listed, tabled and reported without its class; `recombine.load_run(name, module=…)` brings it back.

        Args:
            store: The store, or its folder.
            name: Any text; the class of the model unless given. Seeds of one name are runs of their own.
            replace: Replace a run of the same name and seed.
        """
        from recombine.runs.store import Store

        where = store if isinstance(store, Store) else Store(store)
        return where.save(self, name or class_name(self.model), replace=replace)

    def report(self, path: str | Path = "report.html", name: str = "") -> Path:
        """Write a page about the run, diagnosing it first if that was not done yet."""
        found = self.diagnosis or self.diagnose()
        return hook("write_page")({name or class_name(self.model): found}, path)
