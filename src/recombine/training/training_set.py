"""The training set: a table of the distinct examples of all sources, and the order in which seeds see them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.core.errors import InputError, Problem
from recombine.core.seeds import generator
from recombine.core.task import Task
from recombine.training.examples import EXAMPLES, ExampleSource, Placement
from recombine.training.order import Order, Schedule
from recombine.training.recipe import Training

MOST_ROWS = 2**27  # per epoch and batch; the indices alone take a gigabyte
TABLE_BYTES = 512 * 2**20  # above this, examples are rendered batch by batch
RENDERED_AT_ONCE = 4096


@dataclass(frozen=True)
class PlacedSource:
    """A source, its name in the recipe, and when and how often its examples are used."""

    name: str
    source: ExampleSource
    placement: Placement

    def epoch_length(self) -> int:
        return self.source.epoch_length() * self.placement.repeats

    def steps(self, total: int) -> tuple[int, int]:
        """The first step that uses its examples, and the first that no longer does."""
        return round(self.placement.start * total), round(self.placement.stop * total)


def placed_sources(task: Task, training: Training) -> list[PlacedSource]:
    """Build and check the sources of a recipe for a task."""
    placed: list[PlacedSource] = []
    problems: list[Problem] = []
    for name, given in training.examples.items():
        if given is None:
            continue
        shared = {key: given[key] for key in Placement.model_fields}
        own = {key: value for key, value in given.items() if key not in shared}
        try:
            source: ExampleSource = EXAMPLES.build(own, task)
            source.check()
            placed.append(PlacedSource(name, source, Placement(**shared)))
        except InputError as error:
            problems += [Problem(f"training.examples.{name}.{key}".rstrip("."), told) for key, told in error.problems]
    if problems:
        raise InputError.join(problems)
    return placed


def epoch_length(task: Task, training: Training) -> int:
    """The number of rows of an epoch, including repetitions. Renders nothing."""
    return sum(placed.epoch_length() for placed in placed_sources(task, training))


def check_examples(task: Task, training: Training) -> None:
    """Raise if the recipe requests examples that the task does not have. Cheap; called before anything is written."""
    placed = placed_sources(task, training)
    for what, rows in (("An epoch", sum(p.epoch_length() for p in placed)), ("A batch", training.batch)):
        if rows > MOST_ROWS:
            raise InputError(f"{what} may have at most {MOST_ROWS} examples. Got {rows}. Train for more steps instead.")
    edges = sorted({0.0, *(edge for p in placed for edge in (p.placement.start, p.placement.stop))} - {1.0})
    for edge in edges:
        active = [p for p in placed if p.placement.start <= edge < p.placement.stop]
        if not any(p.epoch_length() for p in active):
            raise InputError(
                f"There is nothing to train on after {edge:.0%} of the steps, because no source has examples there. "
                "Add one, for example training.examples.single_factor={}, or set a count of cells above 0.",
                "training.examples",
            )


class TrainingSet:
    """The distinct examples of all sources in one table, one source after the other.

    Small tables are rendered once and indexed; large ones are rendered batch by batch.

    Attributes:
        weights: Factor of each row's loss; None if all are 1.
    """

    def __init__(self, task: Task, training: Training, device: torch.device, dtype: torch.dtype | None = None) -> None:
        self.task = task
        self.training = training
        self.device = device
        self.dtype = dtype or torch.get_default_dtype()
        self.sources = placed_sources(task, training)
        self.starts = [0]
        for placed in self.sources:
            self.starts.append(self.starts[-1] + len(placed.source))
        self.weights: Float[Tensor, " row"] | None = None
        if any(placed.placement.weight != 1 for placed in self.sources):
            parts = [torch.full((len(p.source),), p.placement.weight, dtype=self.dtype) for p in self.sources]
            self.weights = torch.cat(parts).to(device)
        numbers = sum(math.prod(shape) for shape in (task.input_shape, task.target_shape))
        self._table: tuple[Tensor, Tensor] | None = None
        if len(self) * numbers * self.dtype.itemsize <= TABLE_BYTES:
            parts = [self._render(part) for part in torch.arange(len(self)).split(RENDERED_AT_ONCE)]
            self._table = torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])

    def __len__(self) -> int:
        return self.starts[-1]

    def batch(self, rows: Int[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape ..."], Float[Tensor, "*shape ..."]]:
        """Inputs and targets of rows of the table."""
        if self._table is None:
            inputs, targets = self._render(rows.flatten())
            return inputs.unflatten(0, rows.shape), targets.unflatten(0, rows.shape)
        rows = rows.to(self.device)
        return self._table[0][rows], self._table[1][rows]

    def _render(self, rows: Int[Tensor, " row"]) -> tuple[Tensor, Tensor]:
        shapes = (self.task.input_shape, self.task.target_shape)
        inputs, targets = (torch.empty(len(rows), *s, device=self.device, dtype=self.dtype) for s in shapes)
        for placed, start, stop in zip(self.sources, self.starts, self.starts[1:]):
            chosen = ((rows >= start) & (rows < stop)).nonzero().squeeze(1)
            if len(chosen):
                examples = placed.source.examples(rows[chosen] - start, self.device, self.dtype)
                for whole, part in zip((inputs, targets), examples):
                    whole[chosen.to(self.device)] = flush_subnormals(part)
        return inputs, targets

    def name_of(self, row: int) -> str:
        """The name of the source that a row belongs to."""
        return next(p.name for p, stop in zip(self.sources, self.starts[1:]) if row < stop)

    def epoch(self, seed: int) -> list[Int[Tensor, " row"]]:
        """For each source, the rows that one seed uses in every epoch, with their repetitions."""
        return [
            placed.source.epoch(generator(seed, placed.name)).repeat(placed.placement.repeats) + start
            for placed, start in zip(self.sources, self.starts)
        ]

    def schedule(self, seed: int, total: int) -> Schedule:
        """The rows of every step of one seed."""
        epoch = self.epoch(seed)
        spans = [placed.steps(total) for placed in self.sources]
        phases: list[tuple[int, Order]] = []
        for first in sorted({0, *(step for span in spans for step in span)} - {total}):
            seen = [rows for rows, (start, stop) in zip(epoch, spans) if start <= first < stop and len(rows)]
            if seen:
                phases.append((first, Order(torch.cat(seen), self.training.batch, seed)))
        return Schedule(phases)


def flush_subnormals(numbers: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Set numbers below a tenth of the rounding error of 1 to 0.

    The tails of a bump fall to 1e-38 and below. They are negligible beside its peak, but products with them, and
    AdamW's squares of their gradients, are subnormal numbers, on which processors are slow: training an MLP took 3
    times longer.
    """
    return torch.where(numbers.abs() < torch.finfo(numbers.dtype).eps / 10, 0.0, numbers)
