"""Runs of any module and loss that were saved under a name. They have results, but cannot be trained again."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recombine.core.encodings import ENCODINGS
from recombine.core.errors import InputError, StoreError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import HOLDOUTS, Holdout
from recombine.core.holdouts.holdout import run_lengths
from recombine.core.holdouts.mask import from_run_lengths
from recombine.core.scenes import SCENES
from recombine.core.task import Task
from recombine.models.activations import precision
from recombine.models.adapted import class_name, outputs_for
from recombine.models.decoders import Decoder
from recombine.models.evaluation_mode import evaluation_mode
from recombine.runs.config import RunConfig
from recombine.runs.run import Run

MODULE = "module"  # kind of a decoder of a user-defined class
NAME = re.compile(r"[^\x00-\x1f/\\]{1,100}")
AT_ONCE = 256  # number of cells per batch


@dataclass(frozen=True)
class NamedConfig(RunConfig):
    """The known settings of a run that was saved under a name. Groups may lack a kind."""

    name: str = ""

    def __hash__(self) -> int:
        return hash(self.hash)

    @cached_property
    def hash(self) -> str:
        return digits([self.name, self.seed])

    @cached_property
    def seedless_hash(self) -> str:
        return digits([self.name])

    @property
    def plugins(self) -> dict[str, str]:
        return {}

    def task(self) -> Task:
        families = {"scene": SCENES, "encoding": ENCODINGS, "holdout": HOLDOUTS}
        groups = {name: {k: v for k, v in getattr(self, name).items() if k != "factors"} for name in families}
        unknown = [name for name, family in families.items() if groups[name].get("kind") not in family.models]
        if unknown:
            raise StoreError(
                f"The {' and the '.join(unknown)} of run {self.name!r} cannot be built from its files. "
                f"Pass the task: recombine.load_run({self.name!r}, task=…, module=…)."
            )
        space = FactorSpace.from_config(self.scene["factors"])
        parts = [family.build(groups[name], space) for name, family in families.items()]
        return Task(*parts, allow_unseen=True, inverse=bool(self.decoder.get("inverse", False)))

    def model(self, task: Task | None = None) -> Decoder:
        raise StoreError(
            f"Run {self.name!r} was saved under a name, so its initial weights are unknown. Use its saved model."
        )

    def check(self) -> None:
        raise InputError(f"Run {self.name!r} was saved under a name, so it cannot be trained from its configuration.")


def digits(parts: list[Any]) -> str:
    """16 hexadecimal digits that identify a run, from its name and optionally its seed."""
    return hashlib.sha256(json.dumps(["named", *parts]).encode()).hexdigest()[:16]


def config_of(run: Run, name: str) -> NamedConfig:
    """Collect the configurations of the parts of a run, where they have one."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"A name must have 1 to 100 characters, without slashes and line breaks. Got {name!r}.", "name"
        )
    task, model = run.task, run.model
    own = {"kind": MODULE, "class": class_name(model), "inverse": task.inverse}
    if isinstance(model, Decoder):
        own = {**model.config, "inverse": task.inverse}
    return NamedConfig(
        scene={**_config_of_part(task.scene), "factors": task.space.to_config()},
        encoding=_config_of_part(task.encoding),
        holdout=_config_of_part(task.holdout),
        decoder=own,
        training=run.training.model_dump(),
        seed=run.seed,
        name=name,
    )


def _config_of_part(part: object) -> dict[str, Any]:
    config = getattr(part, "config", None)
    return dict(config) if config and "kind" in config else {"kind": None, "class": type(part).__name__}


def grid_of(holdout: Holdout) -> dict[str, list[int]]:
    """Run-length encoding of the held-out cells and of the existing cells over the grid."""
    return {"held_out": run_lengths(holdout.mask), "available": run_lengths(holdout.available)}


def holdout_of(grid: Mapping[str, list[int]], factors: Any) -> Holdout:
    """Rebuild the hold-out that `grid_of` described."""
    space = FactorSpace.from_config(factors)
    available = from_run_lengths(space, lengths=list(grid["available"])).mask
    return from_run_lengths(space, lengths=list(grid["held_out"])).within(available)


def outputs_of(model: nn.Module, task: Task) -> dict[str, Tensor]:
    """Outputs and targets of every existing cell, and the indices of these cells."""
    device = next((t.device for t in [*model.parameters(), *model.buffers()]), torch.device("cpu"))
    cells = torch.as_tensor(np.flatnonzero(task.holdout.available.ravel()))
    outputs, targets = [], []
    with evaluation_mode(model), torch.no_grad():
        for part in cells.split(AT_ONCE):
            values = task.space.values(part).to(device, precision(model))
            outputs.append(outputs_for(model, task, task.inputs(values)).cpu())
            targets.append(task.targets(values).cpu())
    return {"cells": cells, "outputs": torch.cat(outputs), "targets": torch.cat(targets)}


def saved_model(saved: Mapping[str, Tensor], space: FactorSpace) -> tuple[Callable[[Tensor], Tensor], np.ndarray]:
    """A function from factor values on the grid to saved outputs, and the targets of all cells.

    Cells that do not exist are zero in both.
    """
    cells = saved["cells"]
    tables = {}
    for name in ("outputs", "targets"):
        table = saved[name].new_zeros(len(space), *saved[name].shape[1:])
        table[cells] = saved[name]
        tables[name] = table
    return (lambda values: tables["outputs"][space.cells(values)]), tables["targets"].numpy()
