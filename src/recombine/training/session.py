"""A training run from start to end: trainer, evaluations, checkpoints, callbacks and Ctrl-C."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import nn

from recombine.core.errors import TrainingDiverged, TrainingInterrupted
from recombine.core.interrupt import Interrupt, interruptible
from recombine.core.memory import keep_freed_memory
from recombine.core.progress import ProgressBar
from recombine.models.decoders import Decoder
from recombine.scoring.scores import score
from recombine.training.checkpointing import Checkpointing
from recombine.training.evaluation import Evaluator
from recombine.training.result import TrainingResult
from recombine.training.setup import Setup
from recombine.training.trainer import Trainer

SHOWN_EVERY = 10  # steps
FINISH_NUMBERS = 2**21  # in the targets that a recipe finishes a model on
FINISH_LEAST = 64  # examples, however large the targets


class Session:
    """Trains models of one architecture, one per seed.

    Args:
        models, setup, seeds, stacked: As for Trainer.
        checkpoints: One file per seed, to resume from and to save to.
        guard: See Checkpointing.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        setup: Setup,
        seeds: Sequence[int],
        checkpoints: Sequence[str | Path] | None = None,
        *,
        stacked: bool = False,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        self.trainer = Trainer(models, setup, seeds, stacked=stacked)
        self.evaluator = Evaluator(self.trainer)
        self.checkpointing = Checkpointing(self.evaluator, checkpoints, guard)
        self.seconds = 0.0

    def run(self, checkpoint_seconds: float = 60.0, progress: bool | None = None) -> None:
        """Resume from the checkpoints, if there are any, and train to the end."""
        trainer, setup = self.trainer, self.trainer.setup
        keep_freed_memory()
        self.checkpointing.check_places()
        with ExitStack() as stack:
            cuda = [setup.device] if setup.device.type == "cuda" else []
            stack.enter_context(torch.random.fork_rng(devices=cuda))
            stack.enter_context(torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True))
            torch.manual_seed(trainer.seeds[0])
            self.checkpointing.resume()
            title = f"seed {trainer.seeds[0]}" if len(trainer.seeds) == 1 else f"{len(trainer.seeds)} seeds"
            bar = stack.enter_context(ProgressBar(title, trainer.total, progress))
            interrupt = stack.enter_context(interruptible())
            trainer.program.mode(training=True)
            for callback in setup.callbacks:
                callback.on_start(trainer.seeds, trainer.step, trainer.total)
            started = time.monotonic()
            try:
                self._steps(bar, interrupt, checkpoint_seconds)
            finally:
                self.seconds += time.monotonic() - started

    def _steps(self, bar: ProgressBar, interrupt: Interrupt, checkpoint_seconds: float) -> None:
        trainer, saved = self.trainer, time.monotonic()
        while not self.evaluator.is_over:
            trainer.advance()
            if self.evaluator.is_due:
                bar.update(trainer.step, self.evaluator.evaluate())
            elif trainer.step % SHOWN_EVERY == 0:
                bar.update(trainer.step)
            due = time.monotonic() - saved >= checkpoint_seconds
            if self.checkpointing.files and (due or interrupt.requested):
                self.checkpointing.save()
                saved = time.monotonic()
            if interrupt.requested:
                raise TrainingInterrupted(self._interrupted())

    def _interrupted(self) -> str:
        done = f"Interrupted at step {self.trainer.step} of {self.trainer.total}."
        if not self.checkpointing.files:
            return f"{done} Nothing was saved, because no checkpoint file was given."
        folder = self.checkpointing.files[0].path.parent
        return f"{done} The state is saved in {folder}. Repeat the same call to resume."

    def outcomes(self) -> list[TrainingResult | TrainingDiverged]:
        """For each seed, its result with a separate model on the training device, or the reason why there is none."""
        return [self._outcome(i) for i in range(len(self.trainer.seeds))]

    def _finish(self, index: int) -> None:
        """Let the recipe finish a seed's model on its trained examples, and count the time."""
        trainer = self.trainer
        if trainer.setup.training.finishes:
            started = time.monotonic()
            most = max(FINISH_LEAST, FINISH_NUMBERS // math.prod(trainer.setup.task.target_shape))
            trainer.setup.training.finish(trainer.models[index], *trainer.trained_examples(index, most))
            self.seconds += time.monotonic() - started

    def _outcome(self, index: int) -> TrainingResult | TrainingDiverged:
        trainer, record = self.trainer, self.evaluator.records[index]
        if record.diverged is not None:
            return record.diverged
        model, tensors = trainer.models[index], self.evaluator.weights(index)
        with torch.no_grad():
            for name, target in [*model.named_parameters(), *model.named_buffers()]:
                target.copy_(tensors[name])
        self._finish(index)
        if isinstance(model, Decoder):
            model.eval()
        steps = int(record.history[-1]["step"])
        result = TrainingResult(
            model=model,
            task=trainer.setup.task,
            seed=trainer.seeds[index],
            training=trainer.setup.training,
            history=record.history,
            losses=trainer.trace.of_seed(index, steps).cpu(),
            loss_names=trainer.trace.names,
            steps=steps,
            stopped_early=record.stopped,
            seconds=self.seconds,
            scores=score(model, trainer.setup.task, any_scale=True),
        )
        for callback in trainer.setup.callbacks:
            callback.on_end(result)
        return result
