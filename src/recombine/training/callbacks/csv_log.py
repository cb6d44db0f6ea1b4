"""A callback that writes the history into a CSV file while it grows."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from recombine.training.callbacks.callback import Callback


class CSVLog(Callback):
    """Writes one line per evaluation and seed: seed, step, learning_rate, loss and its parts, id_mse, ood_mse.

    Args:
        path: The file. Lines are appended, so a run that resumes after a kill may repeat a few of them.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def on_evaluate(self, seed: int, row: Mapping[str, float | int]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists() or not self.path.stat().st_size
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow(["seed", *row])
            writer.writerow([seed, *row.values()])
