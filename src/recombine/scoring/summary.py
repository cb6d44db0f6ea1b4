"""Means of scores by split, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from recombine.scoring.intervals import RESAMPLES, bootstrap_interval

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class SummaryRow:
    """A mean over the cells of one split with its 95 % interval."""

    split: str
    metric: str
    mean: float
    low: float
    high: float
    cells: int


@dataclass(frozen=True)
class Summary:
    """Means by split and metric: `summary["ood", "mse"].mean`. Entries that do not apply or are empty are absent."""

    rows: list[SummaryRow]

    @classmethod
    def of(
        cls,
        columns: Mapping[str, Float[np.ndarray, " cell"]],
        splits: Mapping[str, Bool[np.ndarray, " cell"]],
        *,
        resamples: int = RESAMPLES,
        seed: int = 0,
    ) -> Summary:
        """Summarize metrics, given the split of each cell."""
        rows = []
        for split, chosen in splits.items():
            for metric, column in columns.items():
                values = column[chosen]
                if len(values):
                    low, high = bootstrap_interval(values, resamples=resamples, seed=seed)
                    rows.append(SummaryRow(split, metric, float(np.mean(values)), low, high, len(values)))
        return cls(rows)

    def __getitem__(self, key: tuple[str, str]) -> SummaryRow:
        return self._by_key()[key]

    def _by_key(self) -> dict[tuple[str, str], SummaryRow]:
        return {(row.split, row.metric): row for row in self.rows}

    def to_json(self) -> dict[str, float | None]:
        """Flat JSON values: id_mse, ood_mse, id_localization, …; None if outputs are not finite."""
        means = {f"{row.split}_{row.metric}": row.mean for row in self.rows}
        return {name: mean if math.isfinite(mean) else None for name, mean in means.items()}

    def to_pandas(self) -> pandas.DataFrame:
        """One row per split and metric: mean, interval and number of cells."""
        import pandas

        return pandas.DataFrame([vars(row) for row in self.rows])

    def __str__(self) -> str:
        known = self._by_key()
        splits = list(dict.fromkeys(row.split for row in self.rows))
        table = [["", *(split.upper() for split in splits)]]
        for metric in dict.fromkeys(row.metric for row in self.rows):
            found = [known[split, metric] for split in splits]
            table.append([metric, *(f"{r.mean:.3g} [{r.low:.3g}, {r.high:.3g}]" for r in found)])
        first = max(15, *(len(row[0]) for row in table))
        width = 2 + max(26, *(len(cell) for row in table for cell in row[1:]))
        return "\n".join(f"{row[0]:{first}}" + "".join(f"{cell:>{width}}" for cell in row[1:]) for row in table)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_pandas().to_html(index=False)
