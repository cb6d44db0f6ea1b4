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
from recombine.core.files import file_digest, inside, parse_json, read_tensors
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
    """A finished run on disk; its parts are read, and their digests checked, when asked for."""

    path: Path
    config: RunConfig
    facts: dict[str, Any]  # run.json
    module: nn.Module | None = None  # that takes the weights of a run saved under a name
    given_task: Task | None = None  # of such a run, if its files cannot make it

    def __repr__(self) -> str:
        """One line: what it is, its seed and where it is."""
        what = self.name or self.config.decoder["kind"]
        return f"StoredRun({what}, seed {self.config.seed}, {str(self.path)!r})"

    @property
    def id(self) -> str:
        """The hash that names the run."""
        return self.path.name

    @property
    def summary(self) -> dict[str, float | None]:
        """id_mse, ood_mse, id_localization, ood_localization, …"""
        return self.facts["summary"]

    @property
    def name(self) -> str:
        """The name it was saved under; empty if it was trained from a configuration."""
        return self.config.name if isinstance(self.config, NamedConfig) else ""

    @cached_property
    def task(self) -> Task:
        """The task that the run was trained on."""
        return self.config.task() if self.given_task is None else self.given_task

    @cached_property
    def model(self) -> nn.Module:
        """The trained network."""
        self.verified("model/config.json")
        weights = self.verified(WEIGHTS)
        if self.config.decoder["kind"] != MODULE:
            return load(weights.parent)
        if self.module is None:
            raise StoreError(
                f"Run {self.name!r} is of a class of your own, {self.config.decoder['class']}. Bring it back with "
                f"recombine.load_run({self.name!r}, store={str(self.path.parent)!r}, module=…)."
            )
        try:
            self.module.load_state_dict(read_tensors(weights)[0])
        except RuntimeError as error:
            raise InputError(f"The module does not have the weights of run {self.name!r}: {error}", "module") from error
        return self.module.eval()

    @cached_property
    def holdout(self) -> Holdout:
        """The hold-out of the task."""
        grid = self.facts.get("grid")
        return self.task.holdout if grid is None else holdout_of(grid, self.config.scene["factors"])

    @property
    def has_model(self) -> bool:
        """Whether the model can be made here."""
        return self.config.decoder["kind"] != MODULE or self.module is not None

    @property
    def described(self) -> dict[str, Any]:
        """What the decoder told about itself (`Decoder.describe`), such as the effective ranks of a renderer's maps."""
        return self.facts["described"]

    @cached_property
    def scores(self) -> Scores:
        """The scores of every cell; model and scene are loaded only for pictures."""
        space = FactorSpace.from_config(self.config.scene["factors"])
        scores = Scores.from_csv(self.verified("scores.csv"), space)
        scores.source = lambda: (self.model, self.task)
        return scores

    @cached_property
    def history(self) -> list[dict[str, float | int]]:
        """A row per evaluation: step, learning_rate, loss, id_mse, …"""
        path = self.verified("history.jsonl")
        rows = [parse_json(line, path) for line in path.read_bytes().splitlines()]
        if not all(isinstance(row, dict) and is_summary(row) and "step" in row for row in rows):
            raise DamagedError(f"{path} has rows that are no evaluation. {AGAIN}")
        return rows

    @cached_property
    def losses(self) -> Tensor:
        """Loss of every step; the columns are named in `facts["loss_names"]`."""
        path = self.verified("losses.safetensors")
        losses = read_tensors(path)[0].get("losses")
        if losses is None or losses.shape != (self.facts["steps"], len(self.facts["loss_names"])):
            raise DamagedError(f"{path} has not the losses of {self.facts['steps']} steps. {AGAIN}")
        return losses

    def diagnose(
        self,
        request: DiagnosisRequest | None = None,
        *,
        keep: bool | None = True,
        guard: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> Diagnosis:
        """Diagnose the model and keep the result in `diagnosis/`.

        Parts kept from an earlier diagnosis of the same weights stay if its shared settings (layers, seed) were the
        same. If they were not, it is replaced by a result that has all its parts, and left alone (the result says so)
        by one that lacks some.

        Args:
            request: What to compute.
            keep: Whether to keep the result with the run; None for only if its folder can be written to.
            guard: Called before the result is written; raises if it may not be any more.
            options: As for `recombine.diagnose`: fields of the request, and `progress`.
        """
        from recombine.diagnostics.diagnose import diagnose

        writable = os.access(self.path, os.W_OK | os.X_OK)
        if keep and not writable:
            raise StoreError(f"{self.path} is not writable, so a diagnosis cannot be kept there. Save it elsewhere.")
        if self.has_model:
            task = self.task
            model, encode = self.model, task.inputs
            target = task.targets if task.inverse else task.scene  # the scene also says how its images are shown
        else:  # from what it gave
            saved, _ = read_tensors(self.verified(OUTPUTS))
            (model, target), encode = saved_model(saved, self.holdout.space), None
        found = diagnose(model, self.holdout.space, encode, self.holdout, target=target, request=request, **options)
        found = dataclasses.replace(found, source=self.source)
        if not writable or keep is False:
            return found
        try:
            kept = self.load_diagnosis(partial=True)
        except StoreError:
            kept = None  # none yet, or nothing that could be read or is about these weights
        merged = found if kept is None else found.with_parts_of(kept)
        if merged is None:
            return found.noted(
                f"not kept with run {self.id}, whose diagnosis has other settings and parts that this one lacks: save "
                f"it elsewhere (--save FOLDER), or compute all parts with the new settings"
            )
        guard()
        merged.save(self.diagnosis_folder)
        return found

    @property
    def source(self) -> dict[str, str]:
        """What a diagnosis of this run says it is of."""
        return {"run": self.id, "model": self.facts["files"][WEIGHTS]}

    def lacks(self, request: DiagnosisRequest) -> tuple[str, ...]:
        """Which parts of a request are not kept with the run yet; empty if there is nothing left to do."""
        from recombine.diagnostics.diagnosis_files import lacking_parts

        return lacking_parts(self.diagnosis_folder, request, self.source)

    @property
    def diagnosis_folder(self) -> Path:
        """Where its diagnosis is or goes, to be used at once; an error if a link leads elsewhere."""
        return inside(self.path.parent, self.id, "diagnosis", "diagnosis.json").parent

    @property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis kept with the run; an error if there is none, or if it is of other weights."""
        return self.load_diagnosis()

    def load_diagnosis(self, *, partial: bool = False) -> Diagnosis:
        """As `diagnosis`; with `partial` a damaged part is marked as missing instead of refusing all."""
        from recombine.diagnostics.diagnosis import Diagnosis

        folder = self.diagnosis_folder
        if not (folder / "diagnosis.json").is_file():
            command = f"recombine diagnose {self.id} --out {self.path.parent}"
            raise StoreError(f"Run {self.id} has no diagnosis yet. `{command}` makes one.")
        found = Diagnosis.load(folder, partial=partial)
        if found.source.get("model") != self.facts["files"][WEIGHTS]:
            raise StoreError(f"{folder} is about other weights: the run was trained again. Diagnose it again.")
        return found

    def verify(self) -> None:
        """Raise if any file of the run is missing or was changed."""
        for name in (*RESULTS, *([OUTPUTS] if self.name else [])):
            self.verified(name)

    def verified(self, name: str) -> Path:
        """A file of the run, to be read at once; an error if it is missing, a link, or was changed."""
        path = inside(self.path.parent, self.id, *name.split("/"))
        try:
            digest = file_digest(path)
        except FileNotFoundError:
            raise DamagedError(f"{path} is missing: the run is damaged. {AGAIN}") from None
        if digest != self.facts["files"].get(name):
            raise DamagedError(f"{path} was changed after the run finished. {AGAIN}")
        return path
