"""A callback that writes the history for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recombine.core.errors import InputError
from recombine.training.callbacks.callback import Callback
from recombine.training.result import TrainingResult


class TensorBoard(Callback):
    """Writes every number of the history as a scalar, with one TensorBoard run per seed (`tensorboard --logdir
    FOLDER`).

    Args:
        folder: Where `seed-0`, `seed-1`, … are written. Needs the extra `tensorboard`.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError(
                "The callback TensorBoard requires the package tensorboard, which is not installed. Install it with "
                "pip install 'recombine[tensorboard]', or log with CSVLog."
            ) from error
        self.folder = Path(folder)
        self._make: Any = SummaryWriter
        self._writers: dict[int, Any] = {}

    def on_start(self, seeds: Sequence[int], step: int, total: int) -> None:
        for seed in seeds:
            self._writers[seed] = self._make(str(self.folder / f"seed-{seed}"), purge_step=step or None)

    def on_evaluate(self, seed: int, row: Mapping[str, float | int]) -> None:
        for name, value in row.items():
            if name != "step":
                self._writers[seed].add_scalar(name, value, row["step"])

    def on_end(self, result: TrainingResult) -> None:
        self._writers.pop(result.seed).close()
