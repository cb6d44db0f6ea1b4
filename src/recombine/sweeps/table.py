"""The results of a sweep as a tidy table: one row per run, in an order that does not depend on the execution.

```python
results = table(Store("runs"))
results.to_csv(), results.to_pandas()
results.grouped().to_pandas()          # mean and 95 % interval over seeds
results.plot(x="decoder.depth", y="ood_mse")
```
"""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.core.errors import InputError
from recombine.core.files import write_bytes, write_text
from recombine.core.tables import to_csv
from recombine.runs.config import differing, flat
from recombine.runs.store import Store
from recombine.runs.verdicts import stored_verdict
from recombine.scoring.intervals import bootstrap_interval

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

VERDICT = "verdict"
RIGHT_CELLS = "right_cells"  # share of unseen cells that are correct according to the verdict
LARGEST = sys.float_info.max
ALWAYS = ("decoder.kind", "encoding.kind", "holdout.kind", "seed")  # columns that are shown even if all runs agree


@dataclass(frozen=True)
class Table:
    """Rows with the same columns.

    Attributes:
        settings: Columns that identify the run; seed comes last.
        metrics: Columns with measurements.
        rows: One mapping from columns to values per run.
        skipped: Maps ids of damaged runs to the reason.
    """

    settings: list[str]
    metrics: list[str]
    rows: list[dict[str, Any]]
    skipped: dict[str, str]

    @property
    def columns(self) -> list[str]:
        """Run and settings, the verdict if any run has one, and metrics."""
        run = ["run"] if self.rows and "run" in self.rows[0] else []
        verdict = [VERDICT] if any(row.get(VERDICT) for row in self.rows) else []
        return [*run, *self.settings, *verdict, *self.metrics]

    def to_csv(self) -> str:
        """The table as CSV. Numbers are written with full precision, and missing values are empty."""
        return to_csv(self.rows, self.columns)

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a data frame."""
        import pandas

        rows = [{c: _plain(row.get(c)) for c in self.columns} for row in self.rows]
        return pandas.DataFrame(rows, columns=pandas.Index(self.columns))

    def write(self, path: Path) -> None:
        """Write CSV or Parquet, depending on the extension of the file."""
        if path.suffix == ".csv":
            write_text(path, self.to_csv())
        elif path.suffix == ".parquet":
            buffer = io.BytesIO()
            try:
                self.to_pandas().to_parquet(buffer, index=False)
            except ImportError:
                raise InputError(
                    "Writing Parquet requires pyarrow. Install it with pip install 'recombine[parquet]', or write a "
                    ".csv file."
                ) from None
            write_bytes(path, buffer.getvalue())
        else:
            raise InputError(f"A table must be written to a .csv or .parquet file. Got {path.name!r}.")

    def grouped(self) -> Table:
        """One row per setting, with the mean of every metric over its seeds and its 95 % bootstrap interval.

        The columns are metric, metric_low and metric_high, and `seeds`, the number of seeds. A single seed has no
        interval. Verdicts are counted ("superposes 3, composes 1"). The share of correct unseen cells, `right_cells`,
        is a metric like the others.
        """
        groups: dict[str, list[dict[str, Any]]] = {}
        settings = [name for name in self.settings if name != "seed"]
        for row in self.rows:
            groups.setdefault(json.dumps([row.get(name) for name in settings]), []).append(row)
        rows = []
        for group in groups.values():
            row = {name: group[0].get(name) for name in settings} | {"seeds": len(group)}
            verdicts = Counter(r[VERDICT] for r in group if r.get(VERDICT))
            if verdicts:
                row[VERDICT] = ", ".join(f"{kind} {count}" for kind, count in verdicts.most_common())
            for metric in self.metrics:
                row |= _mean(metric, [r[metric] for r in group if r.get(metric) is not None])
            rows.append(row)
        metrics = [f"{metric}{end}" for metric in self.metrics for end in ("", "_low", "_high")]
        return Table(settings, ["seeds", *metrics], rows, self.skipped)

    def plot(self, x: str, y: str = "ood_mse", by: str | None = None, ax: Axes | None = None) -> Axes:
        """Plot the mean of a metric against a setting, with 95 % intervals over seeds and one line per value of `by`.

        Faint points show the individual runs. Runs that differ only in other settings are averaged together.
        """
        from recombine.sweeps.plots import plot

        for name, valid in ((x, self.settings), (y, self.metrics), (by, self.settings)):
            if name is not None and name not in valid:
                raise InputError(f"There is no column {name!r} to plot. Columns: {', '.join(valid)}.")
        if not self.rows:
            raise InputError("There is nothing to plot because no run is finished.")
        return plot(self.rows, x, y, by, ax)


def table(store: Store | str | Path, *, all_settings: bool = False) -> Table:
    """Collect all finished runs of a store.

    Args:
        store: A store or its folder.
        all_settings: Include every setting as a column, not only those in which runs differ.
    """
    store = store if isinstance(store, Store) else Store(store)
    rows, skipped = [], {}
    for found in store.list():
        if found.status.finished:
            verdict = stored_verdict(store, found.id)
            own = {"run": found.id, **({VERDICT: verdict.kind} if verdict else {})}
            right = {} if verdict is None or verdict.right is None else {RIGHT_CELLS: verdict.right}
            named = {"name": found.name} if found.name else {}  # a run that was saved under a name
            rows.append((own, {**named, **flat(found.config)}, {**found.summary, **right}))
        elif found.status.damaged:
            skipped[found.id] = found.status.reason
    names = list(dict.fromkeys(name for _, settings, _ in rows for name in settings))
    told = {*ALWAYS, *differing((settings for _, settings, _ in rows), absent_differs=True)}
    kept = [name for name in names if all_settings or name in told]
    settings = [*(n for n in kept if n != "seed"), "seed"]
    taken = {"run", VERDICT, *settings}
    metrics = list(dict.fromkeys(name for _, _, found in rows for name in found if name not in taken))
    flattened = [{**found, **{n: given.get(n) for n in settings}, **run} for run, given, found in rows]
    flattened.sort(key=lambda row: ([_order(row[name]) for name in settings], row["run"]))
    return Table(settings, metrics, flattened, skipped)


def _order(value: Any) -> tuple[int, float, str]:
    """Sort key: missing values first, then numbers by size, then text."""
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, int | float):
        return 1, float(max(min(value, LARGEST), -LARGEST)), ""
    return 2, 0.0, value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _plain(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def _mean(metric: str, values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {metric: None, f"{metric}_low": None, f"{metric}_high": None}
    numbers = np.array(values, dtype=float)
    low, high = bootstrap_interval(numbers) if len(values) > 1 else (None, None)
    return {metric: float(numbers.mean()), f"{metric}_low": low, f"{metric}_high": high}
