"""Saving the state of training and resuming from it, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recombine.core.errors import InputError
from recombine.training.checkpoint import Checkpoint, DamagedCheckpoint, Snapshot
from recombine.training.evaluation import Evaluator
from recombine.training.fingerprint import fingerprint

SHARED = "shared."  # prefix of optimizer state that all seeds share


class Checkpointing:
    """Saves the state of a training run in one file per seed.

    Args:
        evaluator: The evaluator of the run, which knows its trainer.
        paths: One file per seed; empty to save nothing.
        guard: Called before files are replaced; raises if replacing is no longer allowed.
    """

    def __init__(
        self, evaluator: Evaluator, paths: Sequence[str | Path] | None, guard: Callable[[], None] = lambda: None
    ) -> None:
        self.evaluator, self.trainer, self.guard = evaluator, evaluator.trainer, guard
        self.files = [Checkpoint(Path(path), fingerprint(self.trainer, i)) for i, path in enumerate(paths or [])]

    def check_places(self) -> None:
        """Raise early, before the first save, if a file cannot be written."""
        for file in self.files:
            file.check_place()

    def save(self) -> None:
        """Write the checkpoint of every seed that has not diverged."""
        self.evaluator.check_finite()
        kept = [(file, i) for i, file in enumerate(self.files) if self.evaluator.records[i].diverged is None]
        self.guard()
        for file, i in kept:
            file.prepare(self._snapshot(i))
        self.guard()
        for file, _ in kept:
            file.adopt()

    def resume(self) -> None:
        """Load the snapshots of all seeds, which are at the same step, or start at step 0."""
        snapshots = [s for s in (file.read() for file in self.files) if s is not None]
        if not snapshots:
            return
        assert len(snapshots) == len(self.trainer.seeds)
        assert len({s.facts["step"] for s in snapshots}) == 1
        try:
            self.trainer.step = self.evaluator.checked = snapshots[0].facts["step"]
            _set_random_state(snapshots[0].tensors, self.trainer.setup.device)
            with torch.no_grad():
                for i, snapshot in enumerate(snapshots):
                    self._restore(i, snapshot)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise DamagedCheckpoint(
                self.files[0].path,
                f"{self.files[0].path} does not match its run ({error}). Move it away to start again.",
            ) from error

    def _snapshot(self, index: int) -> Snapshot:
        trainer, record = self.trainer, self.evaluator.records[index]
        tensors = {f"model.{name}": t for name, t in self.evaluator.weights(index).items()}
        tensors["trace"] = trainer.trace.of_seed(index, trainer.step)
        tensors |= _random_state(trainer.setup.device)
        slots, numbers = self._optimizer_state(index)
        facts = {
            "step": trainer.step,
            "history": record.history,
            "best": record.best,
            "without_improvement": record.without_improvement,
            "stopped": record.stopped,
            "optimizer": numbers,
        }
        return Snapshot({**tensors, **slots}, facts)

    def _restore(self, index: int, snapshot: Snapshot) -> None:
        trainer, record, facts = self.trainer, self.evaluator.records[index], snapshot.facts
        record.history, record.best = [dict(row) for row in facts["history"]], facts["best"]
        record.without_improvement = facts["without_improvement"]
        trace = snapshot.tensors["trace"]
        if len(trace) != trainer.step:
            raise ValueError(f"it is at step {trainer.step} but contains the losses of {len(trace)}")
        trainer.trace.reserve(trainer.step)
        trainer.trace.of_seed(index, trainer.step).copy_(trace)
        for name, target in trainer.program.tensors(index).items():
            target.copy_(snapshot.tensors[f"model.{name}"])
        if facts["stopped"]:
            self.evaluator.stop(index)
        self._restore_optimizer(index, snapshot)

    def _optimizer_state(self, index: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The optimizer state of a seed: tensors and plain numbers, by parameter and slot."""
        tensors: dict[str, Tensor] = {}
        numbers: dict[str, Any] = {}
        for name, parameter in self.trainer.program.parameters.items():
            for slot, value in self.trainer.optimizer.state[parameter].items():
                key = f"optimizer.{name}.{slot}"
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    tensors[key] = self.trainer.program.seed_part(value, index)
                elif isinstance(value, Tensor):  # shared by all seeds, such as a step count
                    tensors[f"{SHARED}{key}"] = value
                elif value is None or isinstance(value, bool | int | float):
                    numbers[key] = value
                else:
                    kind = type(self.trainer.optimizer).__name__
                    raise InputError(
                        f"{kind} keeps a {type(value).__name__} ({slot!r}), which a checkpoint cannot store. Train "
                        "without checkpoints, or choose another optimizer.",
                        "optimizer",
                    )
        return tensors, numbers

    def _restore_optimizer(self, index: int, snapshot: Snapshot) -> None:
        program, optimizer = self.trainer.program, self.trainer.optimizer
        for key, saved in {**snapshot.tensors, **snapshot.facts["optimizer"]}.items():
            if not key.removeprefix(SHARED).startswith("optimizer."):
                continue
            name, _, slot = key.removeprefix(SHARED).removeprefix("optimizer.").rpartition(".")
            parameter = program.parameters[name]
            state = optimizer.state[parameter]
            if not isinstance(saved, Tensor):
                state[slot] = saved
            elif key.startswith(SHARED):
                state[slot] = saved.clone()
            else:
                if slot not in state:
                    state[slot] = torch.zeros_like(parameter)
                program.seed_part(state[slot], index).copy_(saved)
        if type(optimizer).__module__.startswith("torch.optim"):
            _check_state(optimizer)


def _check_state(optimizer: torch.optim.Optimizer) -> None:
    """torch's optimizers keep the same for every parameter: tensors of its shape, and single numbers."""
    if len({frozenset(state) for state in optimizer.state.values()}) > 1:
        raise ValueError("the state of its optimizer differs between parameters")
    for parameter, state in optimizer.state.items():
        for slot, kept in state.items():
            if isinstance(kept, Tensor) and kept.shape not in ((), parameter.shape):
                raise ValueError(f"its optimizer's {slot} has the shape {tuple(kept.shape)}")


def _random_state(device: torch.device) -> dict[str, Tensor]:
    state = {"random.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["random.cuda"] = torch.cuda.get_rng_state(device)
    return state


def _set_random_state(tensors: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(tensors["random.cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(tensors["random.cuda"], device)
