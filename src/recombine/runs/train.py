"""Train a model on a task.

```python
run = rc.train(model, task, seed=0)                       # the paper's recipe
run = rc.train(model, task, seed=0, training=rc.recipe("recommended", examples={"single_factor": {}}))
runs = rc.train_seeds(model, task, range(8))              # as one batched program if that is faster
runs = rc.train_seeds(lambda seed: MyModule(), task, range(8))
```
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import nn

from recombine.core.errors import InputError, TrainingDiverged
from recombine.core.task import Task
from recombine.models.decoders import Decoder
from recombine.runs.run import Run
from recombine.training.callbacks import Callback
from recombine.training.loss_terms import LossTerm
from recombine.training.recipe import Training
from recombine.training.setup import LossFunction, MakeOptimizer, Setup
from recombine.training.train import Keeping, MakeModel, copies_of, seeded, train_many, train_one


def train(
    model: nn.Module,
    task: Task,
    *,
    seed: int = 0,
    training: Training | str | None = None,
    loss: LossFunction | None = None,
    optimizer: MakeOptimizer | None = None,
    terms: Sequence[LossTerm] = (),
    callbacks: Sequence[Callback] = (),
    fresh: bool = True,
    device: str | torch.device = "auto",
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool | None = None,
) -> Run:
    """Train a model in place on a task's ID combinations. A `Decoder` is left in evaluation mode.

    Args:
        model: A decoder, or any module that maps the task's inputs to its targets.
        task: The task to learn.
        seed: Determines the initial weights, the drawn examples and their order.
        training: The recipe or its name; by default the paper's.
        loss: Replaces the recipe's loss: a `Loss`, or a function (outputs, targets) → number.
        optimizer: Replaces the recipe's optimizer: a function (parameters, learning_rate) → torch optimizer. The
            recipe's schedule sets the learning rate of its parameter groups at every step.
        terms: Loss terms added to the loss.
        callbacks: Called during training. See `recombine.training.Callback`.
        fresh: Start a `Decoder` from the seed's initial weights. Otherwise, and for any other module, training starts
            from the current weights.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        checkpoint: File in which the state is saved every `checkpoint_seconds` and on Ctrl-C, and from which training
            resumes. It is rejected if the seed, the recipe, the task, the model or the terms have changed. They are
            compared by class, configuration, and public attributes that are numbers, text or tensors (names with a
            leading underscore are private).
        checkpoint_seconds: See `checkpoint`.
        progress: Show a progress bar; by default only on a terminal.

    Raises:
        TrainingDiverged: If the loss becomes NaN or infinite.
        TrainingInterrupted: On Ctrl-C or SIGTERM, after saving.
    """
    setup = Setup.of(task, training, loss=loss, optimizer=optimizer, terms=terms, device=device, callbacks=callbacks)
    if fresh and isinstance(model, Decoder):
        model.initialize(seed)
    keeping = Keeping(None if checkpoint is None else [checkpoint], checkpoint_seconds)
    return Run.of(train_one(model, setup, seed, keeping, progress=progress))


def train_seeds(
    model: Decoder | MakeModel,
    task: Task,
    seeds: Iterable[int],
    *,
    training: Training | str | None = None,
    loss: LossFunction | None = None,
    optimizer: MakeOptimizer | None = None,
    terms: Sequence[LossTerm] = (),
    callbacks: Sequence[Callback] = (),
    device: str | torch.device = "auto",
    checkpoints: Sequence[str | Path] | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool | None = None,
    together: bool | None = None,
) -> list[Run]:
    """Train one model per seed.

    Args:
        model: A decoder, which stays unchanged while copies of it are trained from each seed's initial weights; or a
            function that returns a module for a seed. The function is called with torch's random state set to the seed,
            so that random initial weights differ between seeds.
        seeds: The seeds. Each one gives a run.
        together: Train all seeds as one batched program. By default, this is done if it is faster (`model.stacks`) and
            all seeds are at the same step. Results equal those of single runs up to rounding. The losses of the first
            steps agree to a relative error of 1e-5. Later losses differ by less than the variation between seeds.
        task, training, loss, optimizer, terms, callbacks, device, checkpoint_seconds, progress: As in `train`.
        checkpoints: One checkpoint file per seed. See `checkpoint` of `train`.
    """
    make = _maker(model)
    setup = Setup.of(task, training, loss=loss, optimizer=optimizer, terms=terms, device=device, callbacks=callbacks)
    stacks = isinstance(model, Decoder) and model.stacks and setup.can_stack
    keeping = Keeping(checkpoints, checkpoint_seconds)
    together = stacks if together is None else together
    return run_seeds(make, setup, list(seeds), keeping, together=together, progress=progress)


def run_seeds(
    make: MakeModel,
    setup: Setup,
    seeds: Sequence[int],
    keeping: Keeping,
    *,
    together: bool,
    progress: bool | None = None,
) -> list[Run]:
    """Like `train_many`, but returns runs. If a seed diverges, the exception carries the runs of the other seeds."""
    try:
        results = train_many(make, setup, seeds, keeping, together=together, progress=progress)
    except TrainingDiverged as error:
        finished = [Run.of(result) for result in error.finished]
        raise TrainingDiverged(error.by_seed, finished, error.causes) from error
    return [Run.of(result) for result in results]


def _maker(model: Decoder | MakeModel) -> MakeModel:
    if isinstance(model, Decoder):
        return copies_of(model)
    if isinstance(model, nn.Module) or not callable(model):
        raise InputError(
            "Training several seeds requires different initial weights. Pass a decoder (recombine.decoders), or a "
            f"function that returns a module for a seed, such as lambda seed: MyModule(). Got {type(model).__name__}.",
            "model",
        )
    return seeded(model)
