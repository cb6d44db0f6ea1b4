"""A trained model that can be diagnosed, saved and reported."""

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
    """A trained model and the record of its training. See TrainingResult for the other attributes.

        run = rc.train(module, task)
        run.diagnose().verdict
        run.save("runs", name="my model")
        run.report("report.html")

    Attributes:
        diagnosis: Result of the last call of `diagnose`; None before the first call.
    """

    diagnosis: Diagnosis | None = field(default=None, init=False)

    @classmethod
    def of(cls, result: TrainingResult) -> Run:
        """Turn the result of the training loop into a run."""
        return cls(**{own.name: getattr(result, own.name) for own in fields(TrainingResult)})

    def diagnose(self, **options: Any) -> Diagnosis:
        """Diagnose the model. Takes the options of `recombine.diagnose` (request, parts, layers, progress, …)."""
        from recombine.diagnostics.diagnose import diagnose

        task = self.task
        target = task.targets if task.inverse else task.scene  # the scene also defines how its images are displayed
        found = diagnose(self.model, task.space, task.inputs, task.holdout, target=target, **options)
        self.diagnosis = found
        return found

    def save(self, store: Store | str | Path, name: str = "", *, replace: bool = False) -> StoredRun:
        """Save weights, scores, history, outputs and the diagnosis, if there is one, in a store under a name.

        A saved run can be listed, tabulated and reported without the class of its model. To use the model, load the
        run with `recombine.load_run(name, module=…)`.

        Args:
            store: The store, or its folder.
            name: Any text; by default the class name of the model. Each seed of a name is a separate run.
            replace: Whether to replace a run with the same name and seed.
        """
        from recombine.runs.store import Store

        where = store if isinstance(store, Store) else Store(store)
        return where.save(self, name or class_name(self.model), replace=replace)

    def report(self, path: str | Path = "report.html", name: str = "") -> Path:
        """Write an HTML report of the run. Diagnoses the run first if necessary."""
        found = self.diagnosis or self.diagnose()
        return hook("write_page")({name or class_name(self.model): found}, path)
