"""A finished run on disk."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from recombine.core.errors import DamagedError, InputError, StoreError
from recombine.core.factors import FactorSpace
from recombine.core.files import file_digest, inside, parse_json, read_tensors, set_aside
from recombine.core.holdouts import Holdout
from recombine.core.task import Task
from recombine.models.decoders import load
from recombine.runs.config import RunConfig
from recombine.runs.facts import AGAIN, is_summary
from recombine.runs.layout import OUTPUTS, RESULTS, WEIGHTS
from recombine.runs.named import MODULE, NamedConfig, holdout_of, saved_model
from recombine.scoring.scores import Scores

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis
    from recombine.diagnostics.request import DiagnosisRequest


@dataclass(frozen=True, repr=False)
class StoredRun:
    """A finished run on disk. Its parts are read, and their digests checked, on first use."""

    path: Path
    config: RunConfig
    facts: dict[str, Any]  # run.json
    module: nn.Module | None = None  # receives the weights of a run saved under a name
    given_task: Task | None = None  # task of such a run, if it cannot be built from its files

    def __repr__(self) -> str:
        """One line with the kind of model, the seed and the path."""
        what = self.name or self.config.decoder["kind"]
        return f"StoredRun({what}, seed {self.config.seed}, {str(self.path)!r})"

    @property
    def id(self) -> str:
        """The hash that identifies the run."""
        return self.path.name

    @property
    def summary(self) -> dict[str, float | None]:
        """id_mse, ood_mse, id_localization, ood_localization, …"""
        return self.facts["summary"]

    @property
    def name(self) -> str:
        """The name the run was saved under; empty if it was trained from a configuration."""
        return self.config.name if isinstance(self.config, NamedConfig) else ""

    @cached_property
    def task(self) -> Task:
        """The task the run was trained on."""
        return self.config.task() if self.given_task is None else self.given_task

    @cached_property
    def model(self) -> nn.Module:
        """The trained model."""
        self.verified("model/config.json")
        weights = self.verified(WEIGHTS)
        if not self.has_own_class:
            return load(weights.parent)
        if self.module is None:
            raise StoreError(
                f"Run {self.name!r} has the custom class {self.config.decoder['class']}. Load it with "
                f"recombine.load_run({self.name!r}, store={str(self.path.parent)!r}, module=…)."
            )
        try:
            self.module.load_state_dict(read_tensors(weights)[0])
        except RuntimeError as error:
            raise InputError(f"The weights of run {self.name!r} do not fit the module: {error}", "module") from error
        return self.module.eval()

    @cached_property
    def holdout(self) -> Holdout:
        """The hold-out of the task."""
        grid = self.facts.get("grid")
        return self.task.holdout if grid is None else holdout_of(grid, self.config.scene["factors"])

    @property
    def has_own_class(self) -> bool:
        """Whether the model is of a user-defined class, of which only the weights are stored."""
        return self.config.decoder["kind"] == MODULE

    @property
    def has_model(self) -> bool:
        """Whether the model can be built here."""
        return not self.has_own_class or self.module is not None

    @property
    def described(self) -> dict[str, Any]:
        """What the decoder reports about itself (`Decoder.describe`), such as the effective ranks of its maps."""
        return self.facts["described"]

    @cached_property
    def scores(self) -> Scores:
        """The scores of every cell. The model and the scene are loaded only to draw images."""
        space = FactorSpace.from_config(self.config.scene["factors"])
        scores = Scores.from_csv(self.verified("scores.csv"), space)
        scores.source = lambda: (self.model, self.task)
        return scores

    @cached_property
    def history(self) -> list[dict[str, float | int]]:
        """One row per evaluation: step, learning_rate, loss, id_mse, …"""
        path = self.verified("history.jsonl")
        rows = [parse_json(line, path) for line in path.read_bytes().splitlines()]
        if not all(isinstance(row, dict) and is_summary(row) and "step" in row for row in rows):
            raise DamagedError(f"{path} has rows that are not evaluations. {AGAIN}")
        return rows

    @cached_property
    def losses(self) -> Tensor:
        """Losses of every step, of shape (steps, losses). `facts["loss_names"]` names the columns."""
        path = self.verified("losses.safetensors")
        losses = read_tensors(path)[0].get("losses")
        if losses is None or losses.shape != (self.facts["steps"], len(self.facts["loss_names"])):
            raise DamagedError(f"{path} does not contain the losses of {self.facts['steps']} steps. {AGAIN}")
        return losses

    def diagnose(
        self,
        request: DiagnosisRequest | None = None,
        *,
        keep: bool | None = True,
        guard: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> Diagnosis:
        """Diagnose the model and store the result in `diagnosis/`.

        If the stored diagnosis has the same weights and shared settings (layers, seed), the new parts are added to it.
        Otherwise it is replaced if the new result has all of its parts. If not, it is left unchanged and the new result
        carries a note.

        Args:
            request: The parts and settings to compute.
            keep: Whether to store the result with the run. By default, it is stored if possible.
            guard: Called before the result is written. It raises if writing is no longer allowed.
            options: Options of `recombine.diagnose`: fields of the request, and `progress`.
        """
        from recombine.diagnostics.diagnose import diagnose

        writable = os.access(self.path, os.W_OK | os.X_OK)
        if keep and not writable:
            raise StoreError(
                f"{self.path} is not writable, so the diagnosis cannot be stored there. Save it elsewhere."
            )
        if writable and keep is not False:
            _ = self.diagnosis_folder  # raises before the computation if it is a link
        if self.has_model:
            task = self.task
            model, encode = self.model, task.inputs
            target = task.targets if task.inverse else task.scene  # the scene also defines how its images are displayed
        else:  # use the saved outputs
            saved, _ = read_tensors(self.verified(OUTPUTS))
            (model, target), encode = saved_model(saved, self.holdout.space), None
        found = diagnose(model, self.holdout.space, encode, self.holdout, target=target, request=request, **options)
        found = dataclasses.replace(found, source=self.source)
        if not writable or keep is False:
            return found
        try:
            kept = self.load_diagnosis(partial=True)
        except StoreError:
            kept = None  # the diagnosis is missing, unreadable, or belongs to other weights
        merged = found if kept is None else found.with_parts_of(kept)
        if merged is None:
            return found.noted(
                f"not stored with run {self.id}, because its stored diagnosis has other settings and additional "
                "parts. Save this diagnosis elsewhere (--save FOLDER), or compute all parts with the new settings."
            )
        guard()
        try:
            merged.save(self.diagnosis_folder)
        except StoreError as error:
            if keep:
                raise
            return found.noted(f"not stored with run {self.id}: {error}")
        return found

    @property
    def source(self) -> dict[str, str]:
        """The record in a diagnosis that identifies the weights of this run."""
        return {"run": self.id, "model": self.facts["files"][WEIGHTS]}

    def lacks(self, request: DiagnosisRequest) -> tuple[str, ...]:
        """The parts of a request that are not stored with the run yet; empty if nothing is left to compute."""
        from recombine.diagnostics.diagnosis_files import lacking_parts

        return lacking_parts(self.diagnosis_folder, request, self.source)

    @property
    def diagnosis_folder(self) -> Path:
        """The folder of the diagnosis, to be used immediately. Raises if a link leads elsewhere."""
        return inside(self.path.parent, self.id, "diagnosis", "diagnosis.json").parent

    @property
    def diagnosis(self) -> Diagnosis:
        """The stored diagnosis. Raises if there is none or if it belongs to other weights."""
        return self.load_diagnosis()

    def load_diagnosis(self, *, partial: bool = False) -> Diagnosis:
        """Like `diagnosis`. With `partial`, a damaged part is marked as missing instead of raising."""
        from recombine.diagnostics.diagnosis import Diagnosis

        folder = self.diagnosis_folder
        if not (folder / "diagnosis.json").is_file():
            command = f"recombine diagnose {self.id} --out {self.path.parent}"
            raise StoreError(f"Run {self.id} has no diagnosis yet. Create one with `{command}`.")
        found = Diagnosis.load(folder, partial=partial)
        if found.source.get("model") != self.facts["files"][WEIGHTS]:
            raise StoreError(
                f"{folder} belongs to other weights, because the run was trained again. Diagnose the run again."
            )
        return found

    def drop_damaged_diagnosis(self) -> str:
        """Remove a stored diagnosis that cannot be read. Returns the reason, or an empty string if it is readable."""
        folder = self.path / "diagnosis"
        path = folder / "diagnosis.json"
        try:
            if os.path.lexists(self.diagnosis_folder / path.name):
                self.load_diagnosis()
        except StoreError as error:
            if folder.is_symlink() or not folder.is_dir():
                set_aside(folder)
            elif path.is_dir() and not path.is_symlink():
                set_aside(path)
            else:
                path.unlink(missing_ok=True)
            return str(error)
        return ""

    def verify(self) -> None:
        """Raise if any file of the run is missing or was changed."""
        for name in (*RESULTS, *([OUTPUTS] if self.name else [])):
            self.verified(name)

    def verified(self, name: str) -> Path:
        """Path of a file of the run, to be read immediately. Raises if it is missing, a link, or changed."""
        path = inside(self.path.parent, self.id, *name.split("/"))
        try:
            digest = file_digest(path)
        except FileNotFoundError:
            raise DamagedError(f"The run is damaged: {path} is missing. {AGAIN}") from None
        if digest != self.facts["files"].get(name):
            raise DamagedError(f"{path} was changed after the run finished. {AGAIN}")
        return path
