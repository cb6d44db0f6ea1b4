"""Scores of a decoder on every combination, trained or held out.

```python
scores = score(model, task)
scores.to_pandas()            # one row per cell of the grid
scores.summary()              # ID and OOD means with bootstrap intervals
scores.plot_landscape()       # error over the factor plane, hold-out outlined
scores.plot_samples()         # truth beside output
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from recombine.core import holdouts
from recombine.core.errors import DamagedError, InputError, StoreError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.seeds import generator
from recombine.core.tables import from_csv, to_csv
from recombine.core.task import Task
from recombine.models.activations import precision
from recombine.models.adapted import Draws, Key, adapt, outputs_for
from recombine.models.evaluation_mode import evaluation_mode
from recombine.scoring.intervals import RESAMPLES
from recombine.scoring.metrics import METRICS, TruthMoments, metrics_of
from recombine.scoring.scales import check_scale
from recombine.scoring.summary import Summary

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHUNK = 256
ID, OOD, UNAVAILABLE = "id", "ood", "unavailable"
SPLIT = "split"
SPREAD = "spread"  # column: variance over draws


def score(
    model: nn.Module,
    task: Task,
    *,
    chunk: int = CHUNK,
    output: Key | None = None,
    draws: int = 1,
    any_scale: bool = False,
) -> Scores:
    """Score a model on every available cell of the grid with all metrics that apply.

    Args:
        model: A module that maps the task's inputs to its targets.
        task: The task.
        chunk: Number of cells per forward pass.
        output: The part of the model's output to score, by key, attribute or position, if it is not a tensor.
        draws: Number of noise samples. With more than one, metrics are means over the samples, and the column
            `spread` is the variance over them.
        any_scale: Accept outputs up to 255 where the truth goes up to 1, and the reverse.
    """
    model = model if output is None else adapt(model, output=output)
    several = Draws(model, draws)
    device = next((t.device for t in [*model.parameters(), *model.buffers()]), torch.device("cpu"))
    metrics = metrics_of(task)
    found: dict[str, list[Tensor]] = {metric.name: [] for metric in metrics}
    spread: list[Tensor] = []
    truth = TruthMoments()
    available = task.holdout.available_cells
    with evaluation_mode(model), torch.no_grad():
        for cells in available.split(chunk):
            values = task.space.values(cells).to(device, precision(model))
            inputs = task.inputs(values)
            made = [outputs_for(one, task, inputs) for one in several]
            targets = [_targets(task, values, outputs) for outputs in made]
            if not (truth.count or any_scale):
                check_scale(targets[0], made[0])
            truth.add(targets[0])
            for metric in metrics:
                computed = [metric.compute(o, t, values, task) for o, t in zip(made, targets)]
                found[metric.name].append(computed[0] if draws == 1 else torch.stack(computed).mean(0))
            if draws > 1:
                spread.append(torch.stack(made).flatten(2).var(0, correction=0).mean(1))
    columns = {}
    for metric in metrics:
        column = np.full(len(task.space), np.nan)
        column[available.numpy()] = metric.finish(torch.cat(found[metric.name]).double().cpu().numpy(), truth)
        columns[metric.name] = column
    if spread:
        columns[SPREAD] = np.full(len(task.space), np.nan)
        columns[SPREAD][available.numpy()] = torch.cat(spread).double().cpu().numpy()
    return Scores(task.holdout, columns, model=model, task=task)


def _targets(task: Task, values: Tensor, outputs: Tensor) -> Tensor:
    """The targets. If a scene has several pictures per cell, they may depend on the outputs."""
    nearest = getattr(task.scene, "target_for", None)
    return task.targets(values) if nearest is None or task.inverse else nearest(values, outputs)


@dataclass(repr=False)
class Scores:
    """A table of metrics with one row per cell, with summaries and figures.

    Attributes:
        holdout: Defines which cells are ID, OOD or unavailable.
        columns: Maps each metric to one number per cell, in cell order; NaN for unavailable cells. Metrics that do not
            apply to the task are absent.
        model, task: The scored model and task, for pictures.
        source: Provides both on first use, for scores that were read from a file.
    """

    holdout: Holdout
    columns: dict[str, Float[np.ndarray, " cell"]]
    model: nn.Module | None = None
    task: Task | None = None
    source: Callable[[], tuple[nn.Module, Task]] | None = None

    def __repr__(self) -> str:
        counts = f"{self.holdout.n_id} ID and {self.holdout.n_ood} OOD cells"
        return f"Scores({counts}; {', '.join(self.columns)})"

    @property
    def split(self) -> np.ndarray:
        """ "id", "ood" or "unavailable" for every cell."""
        split = np.full(len(self.holdout.space), UNAVAILABLE, dtype="<U11")
        split[self.holdout.id_cells.numpy()] = ID
        split[self.holdout.ood_cells.numpy()] = OOD
        return split

    @property
    def is_ood(self) -> Bool[np.ndarray, " cell"]:
        """True at held-out cells, in cell order."""
        return self.split == OOD

    def to_pandas(self) -> pandas.DataFrame:
        """One row per cell: factor values, or labels of categorical factors, split and the metrics."""
        import pandas

        return pandas.DataFrame(self._table())

    def _table(self) -> dict[str, Any]:
        space = self.holdout.space
        places = space.coordinates(torch.arange(len(space)))
        factors: dict[str, Any] = {}
        for axis, (name, factor) in enumerate(space.factors.items()):
            known = factor.labels if factor.categorical else factor.grid().numpy()
            factors[name] = np.asarray(known)[places[:, axis].numpy()]
        return {**factors, SPLIT: self.split, **self.columns}

    def to_csv(self) -> str:
        """The table as CSV text. Numbers are written with full precision."""
        table = {name: column.tolist() for name, column in self._table().items()}
        return to_csv([dict(zip(table, row)) for row in zip(*table.values())], list(table))

    @classmethod
    def from_csv(cls, path: Path, space: FactorSpace) -> Scores:
        """Read what `to_csv` wrote, with any metrics. The table itself defines which cells are ID and OOD."""
        try:
            rows = from_csv(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeError, DamagedError) as error:
            raise DamagedError(f"{path} is not a table of scores: {error}") from error
        if len(rows) != len(space):
            raise DamagedError(f"{path} has {len(rows)} rows, but the grid has {len(space)} cells.")
        lacking = [name for name in (*space.names, SPLIT) if name not in rows[0]]
        metrics = [name for name in rows[0] if name not in (*space.names, SPLIT)]
        texts = [name for name in metrics if isinstance(rows[0][name], str)]
        split = np.array([str(row.get(SPLIT)) for row in rows])
        strange = sorted(set(split) - {ID, OOD, UNAVAILABLE})
        if lacking or texts or strange:
            wrong = f"it lacks {', '.join(lacking)}" if lacking else f"{', '.join(texts)} contains text"
            wrong = wrong if lacking or texts else f"a split must be {ID}, {OOD} or {UNAVAILABLE}, not {strange[0]}"
            raise DamagedError(f"{path} is not a table of scores: {wrong}.")
        holdout = holdouts.mask(space, split == OOD)
        holdout = holdout.within(split != UNAVAILABLE) if (split == UNAVAILABLE).any() else holdout
        return cls(holdout, {name: np.array([row[name] for row in rows]) for name in metrics})

    def summary(self, *, resamples: int = RESAMPLES, seed: int = 0) -> Summary:
        """ID and OOD means of every metric, with 95 % bootstrap intervals over cells (seeded)."""
        split = self.split
        chosen = {name: split == name for name in (ID, OOD)}
        return Summary.of(self.columns, chosen, resamples=resamples, seed=seed)

    def plot_landscape(self, metric: str = "mse", ax: Axes | None = None) -> Axes:
        """Draw the metric over the first two factors, with the hold-out outlined.

        With more factors, the mean over the others is drawn: inside the outline of held-out cells only, outside of
        trained ones.
        """
        from recombine.plotting.grids import landscape

        if metric not in self.columns:
            raise InputError(f"There is no metric {metric!r}. Metrics: {', '.join(self.columns)}.")
        values = self.columns[metric].reshape(self.holdout.space.shape)
        return landscape(self.holdout, values, metric, ax, label=axis_label(metric), log=on_log_scale(metric))

    def plot_samples(self, cells: Sequence[int] | None = None, *, n: int = 5, seed: int = 0) -> Figure:
        """Draw the truth above the output for `n` ID and `n` OOD cells drawn with a seed, or for the given cells."""
        from recombine.scoring.outputs import samples

        if self.source is not None and self.model is None:
            self.model, self.task = self.source()
        if self.model is None or self.task is None:
            raise StoreError("These scores were read without their model. Use store.load(run).scores to draw pictures.")
        chosen = self.draw(n, seed) if cells is None else self.holdout.space.checked_cells(cells)
        if not len(chosen):
            raise InputError("A picture requires at least one cell. Got none.")
        return samples(self.model, self.task, chosen)

    def draw(self, n: int, seed: int = 0) -> Int[Tensor, " cell"]:
        """n random ID cells, then n random OOD cells."""
        drawn = [
            cells[torch.randperm(len(cells), generator=generator(seed, "samples", name))[:n]]
            for name, cells in ((ID, self.holdout.id_cells), (OOD, self.holdout.ood_cells))
        ]
        return torch.cat(drawn)


def axis_label(name: str) -> str:
    """The name of a metric in figures, with its unit; the column's name if the metric is not registered."""
    if name not in METRICS:
        return name
    metric = METRICS[name]
    return f"{metric.label} ({metric.unit})" if metric.unit else metric.label


def short_label(name: str) -> str:
    """The name of a metric where space is limited."""
    short = METRICS[name].short if name in METRICS else ""
    return short or name.replace("_", " ")


def on_log_scale(name: str) -> bool:
    """Whether figures use a log scale for a metric."""
    return name in METRICS and METRICS[name].log
