"""How well a decoder does on every combination, trained or held out.

scores = score(model, task)
scores.to_pandas()            # a row per cell of the grid
scores.summary()              # ID and OOD means with bootstrap intervals
scores.plot_landscape()       # error over the factor plane, hold-out outlined
scores.plot_samples()         # truth beside output
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from recombine.core.errors import InputError, StoreError
from recombine.core.holdouts import Holdout
from recombine.core.seeds import generator
from recombine.core.task import Task
from recombine.models.activations import precision
from recombine.scoring.metrics.ssim import ssim

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = ("mse", "position_error", "localized", "ssim")
CHUNK = 256
RESAMPLES = 1000


def score(model: nn.Module, task: Task, *, chunk: int = CHUNK) -> Scores:
    """Score a model on every cell of the grid, `chunk` cells at a time.

    Per cell: *mse*; *position_error*, the distance in pixels from the brightest pixel (the darkest of an inverted
    scene) to the true place; *localized*, whether that pixel lies within ±1 pixel of it in x and in y; *ssim*. The
    inverse task scores decoded factor values, in grid steps, in place of pixels. What does not apply is NaN.
    """
    device = next((t.device for t in [*model.parameters(), *model.buffers()]), torch.device("cpu"))
    dtype = precision(model)
    was_training = model.training
    parts: list[dict[str, Tensor]] = []
    model.eval()
    try:
        with torch.no_grad():
            for cells in task.space.chunks(chunk):
                values = task.space.values(cells).to(device, dtype)
                outputs, targets = model(task.inputs(values)), task.targets(values)
                offsets = _offsets(outputs, values, task)
                nothing = offsets.new_full((len(cells),), math.nan)
                parts.append(
                    {
                        "mse": (outputs - targets).square().flatten(1).mean(1),
                        "position_error": offsets.square().sum(-1).sqrt(),
                        "localized": torch.where(
                            offsets.isnan().any(-1),
                            nothing,
                            (offsets.abs() <= 1 + 1e-4).all(-1).to(offsets.dtype),
                        ),
                        "ssim": nothing if task.inverse else ssim(outputs, targets),
                    }
                )
    finally:
        model.train(was_training)
    columns = {name: torch.cat([p[name] for p in parts]).double().cpu().numpy() for name in METRICS}
    return Scores(task.holdout, columns, model=model, task=task)


def _offsets(outputs: Tensor, values: Tensor, task: Task) -> Float[Tensor, "cell axis"]:
    """Found minus true place: (column, row) in pixels, or factor positions for the inverse task."""
    if task.inverse:
        found = task.encoding.decode(outputs)
        steps = [f.steps(found[:, a], values[:, a]) for a, f in enumerate(task.space.factors.values())]
        return torch.stack(steps, dim=-1)
    flat = outputs.flatten(1)
    peak = flat.argmin(1) if task.scene.inverted else flat.argmax(1)
    columns = outputs.shape[-1]
    pixels = torch.stack([peak % columns, peak // columns], dim=-1).to(values.dtype)
    pixels = torch.where(flat.isfinite().all(1, keepdim=True), pixels, math.nan)
    offsets = task.scene.pixel_offsets(pixels, values)
    return pixels.new_full(pixels.shape, math.nan) if offsets is None else offsets


@dataclass
class Scores:
    """A table with a row per cell, and what is read off it.

    Attributes:
        holdout: Tells which cells are OOD.
        columns: Metric name → one number per cell, in cell order.
    """

    holdout: Holdout
    columns: dict[str, Float[np.ndarray, " cell"]]
    model: nn.Module | None = field(default=None, repr=False)
    task: Task | None = field(default=None, repr=False)

    @property
    def is_ood(self) -> Bool[np.ndarray, " cell"]:
        return self.holdout.mask.ravel()

    def to_pandas(self) -> pandas.DataFrame:
        """One row per cell: factor values, split ("id" or "ood") and the metrics."""
        import pandas

        return pandas.DataFrame(self._table())

    def _table(self) -> dict[str, Any]:
        space = self.holdout.space
        values = space.values(torch.arange(len(space))).numpy()
        factors = {name: values[:, axis] for axis, name in enumerate(space.names)}
        return {**factors, "split": np.where(self.is_ood, "ood", "id"), **self.columns}

    def to_csv(self) -> str:
        """The table as text; numbers are written so that reading them gives them back exactly."""
        table = self._table()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values())))
        return text.getvalue()

    @classmethod
    def from_csv(cls, path: Path, holdout: Holdout) -> Scores:
        """Read what `to_csv` wrote."""
        try:
            with path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            columns = {name: np.array([float(row[name]) for row in rows]) for name in METRICS}
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is no table of scores: {error!r}.") from error
        if len(rows) != len(holdout.space):
            raise StoreError(f"{path} has {len(rows)} rows, but the grid has {len(holdout.space)} cells.")
        return cls(holdout, columns)

    def summary(self, *, resamples: int = RESAMPLES, seed: int = 0) -> Summary:
        """ID and OOD means of every metric, with 95 % bootstrap intervals over cells (seeded)."""
        rows = []
        for split, chosen in (("id", ~self.is_ood), ("ood", self.is_ood)):
            for metric in METRICS:
                values = self.columns[metric][chosen]
                low, high = bootstrap_interval(values, resamples=resamples, seed=seed)
                rows.append(SummaryRow(split, metric, float(np.mean(values)), low, high, len(values)))
        return Summary(rows)

    def plot_landscape(self, metric: str = "mse", ax: Axes | None = None) -> Axes:
        """The metric over the first two factors (mean over the others), hold-out outlined."""
        from recombine.plotting.grids import landscape

        if metric not in self.columns:
            raise InputError(f"There is no metric {metric!r}. Metrics: {', '.join(self.columns)}.")
        return landscape(self.holdout, self.columns[metric].reshape(self.holdout.space.shape), metric, ax)

    def plot_samples(self, cells: Sequence[int] | None = None, *, n: int = 5, seed: int = 0) -> Figure:
        """Truth above output for `n` ID and `n` OOD cells drawn by seed, or for the cells given."""
        from recombine.scoring.outputs import samples

        if self.model is None or self.task is None:
            raise StoreError("These scores were read without their model; use store.load(run).scores for pictures.")
        chosen = self.draw(n, seed) if cells is None else self.holdout.space.checked_cells(cells)
        if not len(chosen):
            raise InputError("A picture needs at least one cell. Got none.")
        return samples(self.model, self.task, chosen)

    def draw(self, n: int, seed: int = 0) -> Int[Tensor, " cell"]:
        """n random ID cells, then n random OOD cells."""
        drawn = [
            cells[torch.randperm(len(cells), generator=generator(seed, "samples", name))[:n]]
            for name, cells in (("id", self.holdout.id_cells), ("ood", self.holdout.ood_cells))
        ]
        return torch.cat(drawn)


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
    """Means by split and metric; `summary["ood", "mse"].mean`."""

    rows: list[SummaryRow]

    def __getitem__(self, key: tuple[str, str]) -> SummaryRow:
        return {(row.split, row.metric): row for row in self.rows}[key]

    def to_json(self) -> dict[str, float | None]:
        """Flat and JSON-able: id_mse, ood_mse, id_localization, …; what does not apply is None."""
        names = {"localized": "localization"}
        means = {f"{r.split}_{names.get(r.metric, r.metric)}": r.mean for r in self.rows}
        return {name: mean if math.isfinite(mean) else None for name, mean in means.items()}

    def to_pandas(self) -> pandas.DataFrame:
        import pandas

        return pandas.DataFrame([vars(row) for row in self.rows])

    def __str__(self) -> str:
        lines = [f"{'':15}{'ID':>28}{'OOD':>28}"]
        for metric in METRICS:
            cells = [f"{r.mean:.3g} [{r.low:.3g}, {r.high:.3g}]" for r in (self["id", metric], self["ood", metric])]
            lines.append(f"{metric:15}{cells[0]:>28}{cells[1]:>28}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_pandas().to_html(index=False)


def bootstrap_interval(
    values: Float[np.ndarray, " n"], *, resamples: int = RESAMPLES, seed: int = 0, level: float = 0.95
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean. NaN for no values or where a value is NaN."""
    if len(values) == 0 or np.isnan(values).any():
        return math.nan, math.nan
    random = np.random.default_rng(seed)
    block = max(1, 2**22 // len(values))  # bounds memory for large grids
    means = [
        values[random.integers(len(values), size=(min(block, resamples - start), len(values)))].mean(1)
        for start in range(0, resamples, block)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
