"""The interface of callbacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recombine.training.result import TrainingResult


class Callback:
    """Receives events during training. Nothing it does changes the result. Override the methods you need.

        class Print(Callback):
            def on_evaluate(self, seed, row):
                print(seed, row["step"], row["id_mse"])

    An exception raised by a callback ends the training.
    """

    def on_start(self, seeds: Sequence[int], step: int, total: int) -> None:
        """Called when training starts or resumes from a checkpoint.

        Args:
            seeds: The seeds that are trained together.
            step: Steps done already.
            total: Steps of the whole run.
        """

    def on_evaluate(self, seed: int, row: Mapping[str, float | int]) -> None:
        """Called after a seed was evaluated. `row` is the new row of its history: step, learning_rate, loss, …"""

    def on_end(self, result: TrainingResult) -> None:
        """Called when a seed has been trained and scored. Not called for a seed that diverged or was interrupted."""
