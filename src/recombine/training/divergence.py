"""Explains why a loss is NaN or infinite."""

from __future__ import annotations

from collections.abc import Sequence

from recombine.core.errors import DivergenceCause, TrainingDiverged
from recombine.training.trainer import Trainer


def explain(trainer: Trainer, index: int, step: int, columns: Sequence[str]) -> TrainingDiverged:
    """Build the error for a seed whose loss is not finite. It names the examples if they are the cause.

    Args:
        trainer: The trainer, at any later step.
        index: Index of the seed.
        step: The first step with a non-finite loss.
        columns: The parts of the loss that are not finite.
    """
    seed = trainer.seeds[index]
    step = min(step, trainer.total - 1)
    start = f"The loss of seed {seed} is not a finite number at step {step} ({', '.join(columns)})."
    inputs, targets, _ = trainer.batch(step)
    for cause, numbers in ((DivergenceCause.TARGETS, targets[index]), (DivergenceCause.INPUTS, inputs[index])):
        bad = ~numbers.flatten(1).isfinite().all(1).cpu()
        if bool(bad.any()):
            row = int(trainer.schedules[index](step)[bad][0])
            why = (
                f"{start} The {cause} of {int(bad.sum())} of its {len(bad)} examples are not finite (the first is "
                f"from the source {trainer.examples.name_of(row)!r}). Remove or correct them."
            )
            return TrainingDiverged({seed: why}, causes={seed: cause})
    why = (
        f"{start} Inputs and targets are finite. Likely causes: a learning rate that is too high (it was "
        f"{trainer.learning_rate(step):.2g}; try a third, or a warm-up), or a loss or term with an infinite gradient."
    )
    return TrainingDiverged({seed: why}, causes={seed: DivergenceCause.LOSS})
