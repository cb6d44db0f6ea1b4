"""What a run is trained on: a table of distinct examples, and for each seed the order in which they are drawn."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.seeds import generator
from recombine.core.task import Task
from recombine.training.recipe import Training

MOST_ROWS = 2**27  # of an epoch and of a batch: their numbers alone take a gigabyte
TABLE_BYTES = 512 * 2**20  # above this, examples are rendered batch by batch


class Examples:
    """The distinct training examples of a task: all ID cells, then all stripes if the recipe has them.

    Small tables are rendered once and indexed; large ones are rendered batch by batch.
    """

    def __init__(self, task: Task, training: Training, device: torch.device, dtype: torch.dtype | None = None) -> None:
        self.task = task
        self.device = device
        self.dtype = dtype or torch.get_default_dtype()
        self.id_cells = task.holdout.id_cells
        self.n_stripes = sum(task.space.shape) if training.stripes else 0
        numbers = sum(torch.Size(shape).numel() for shape in (task.input_shape, task.target_shape))
        self._table: tuple[Tensor, Tensor] | None = None
        if len(self) * numbers * self.dtype.itemsize <= TABLE_BYTES:
            rows = torch.arange(len(self)).split(4096)
            parts = [self._render(part) for part in rows]
            self._table = torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])

    def __len__(self) -> int:
        return len(self.id_cells) + self.n_stripes

    def batch(self, rows: Int[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape ..."], Float[Tensor, "*shape ..."]]:
        """Inputs and targets of rows of the table."""
        if self._table is None:
            return self._render(rows)
        rows = rows.to(self.device)
        return self._table[0][rows], self._table[1][rows]

    def _render(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        values, present = self._factors(rows)
        values = values.to(self.device, self.dtype)
        present = present.to(self.device) if self.n_stripes else None
        return flush_subnormals(self.task.inputs(values, present)), flush_subnormals(self.task.targets(values, present))

    def _factors(self, rows: Tensor) -> tuple[Float[Tensor, "*shape factor"], Bool[Tensor, "*shape factor"]]:
        """Factor values of rows, and which factors are present."""
        n_id = len(self.id_cells)
        values = self.task.space.values(self.id_cells[rows.clamp(max=n_id - 1)])
        present = torch.ones_like(values, dtype=torch.bool)
        if self.n_stripes:
            stripe_values, stripe_present = stripes(self.task.space)
            is_stripe = (rows >= n_id).unsqueeze(-1)
            which = (rows - n_id).clamp(min=0)
            values = torch.where(is_stripe, stripe_values[which], values)
            present = torch.where(is_stripe, stripe_present[which], present)
        return values, present


def flush_subnormals(numbers: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Numbers below a tenth of the rounding error of 1 become 0.

    The tails of a bump fall to 1e-38 and below. They mean nothing beside its peak, but products with them, and AdamW's
    squares of their gradients, are subnormal numbers, which processors are slow at: an MLP trained 3 times longer.
    """
    return torch.where(numbers.abs() < torch.finfo(numbers.dtype).eps / 10, 0.0, numbers)


def stripes(space: FactorSpace) -> tuple[Float[Tensor, "stripe factor"], Bool[Tensor, "stripe factor"]]:
    """All single-factor examples: each value of each factor with the other factors absent (2N for two factors)."""
    rows = sum(space.shape)
    values = torch.zeros(rows, space.n_factors)
    present = torch.zeros(rows, space.n_factors, dtype=torch.bool)
    start = 0
    for axis, factor in enumerate(space.factors.values()):
        values[start : start + factor.size, axis] = factor.grid()
        present[start : start + factor.size, axis] = True
        start += factor.size
    return values, present


def check_data(task: Task, training: Training) -> None:
    """Raise if the recipe asks for examples that the task cannot give. Cheap, and done before anything is written."""
    n_id = task.holdout.n_id
    if training.bumps is not None and training.bump_share is not None:
        raise InputError(f"Give bumps or bump_share, not both. Got {training.bumps} and {training.bump_share}.")
    bumps = n_bumps(training, n_id)
    if bumps is not None and bumps > n_id:
        raise InputError(f"bumps={bumps} asks for more ID cells than the hold-out leaves ({n_id}).")
    for what, rows in (("An epoch", epoch_length(task, training)), ("A batch", training.batch)):
        if rows > MOST_ROWS:
            raise InputError(f"{what} has at most {MOST_ROWS} examples here. Got {rows}; train for more steps instead.")
    if training.stripes_first and not training.stripes:
        raise InputError(f"stripes_first={training.stripes_first} needs stripes: set training.stripes=true.")
    if bumps == 0 and not training.stripes:
        raise InputError(
            "There is nothing to train on: bumps=0 and no stripes. Set training.stripes=true or bumps > 0."
        )
    if training.stripes:
        values, present = stripes(task.space)
        task.encoding(values, present)  # refuses if some factor has no code for being absent
        task.scene(values[:1], present[:1])  # refuses if there is no image without some factor


def n_bumps(training: Training, n_id: int) -> int | None:
    """How many distinct ID cells the recipe asks for; None if it does not say."""
    return training.bumps if training.bump_share is None else round(training.bump_share * n_id)


def epoch_length(task: Task, training: Training) -> int:
    """How many rows an epoch has (the length of `drawn_rows`), without rendering anything."""
    n_id = task.holdout.n_id
    bumps = n_bumps(training, n_id)
    cells = bumps if bumps is not None else training.samples if training.sampling == "replacement" else n_id
    return cells + (sum(task.space.shape) * training.stripe_repeats if training.stripes else 0)


def drawn_rows(examples: Examples, training: Training, seed: int) -> Int[Tensor, " row"]:
    """The rows one seed passes over in every epoch, with their repetitions."""
    n_id = len(examples.id_cells)
    draws = generator(seed, "cells")
    bumps = n_bumps(training, n_id)
    if bumps is not None:
        cells = torch.randperm(n_id, generator=draws)[:bumps]
    elif training.sampling == "replacement":
        cells = torch.randint(n_id, (training.samples,), generator=draws)
    else:
        cells = torch.arange(n_id)
    stripe_rows = torch.arange(n_id, n_id + examples.n_stripes).repeat(training.stripe_repeats)
    return torch.cat([cells, stripe_rows])


class Order:
    """Which rows each step of one seed sees: reshuffled epochs laid end to end and cut into equal batches.

    Args:
        rows: What an epoch consists of.
        batch: Rows per step.
        seed: Decides the shuffles.
        after: Another order that comes first, and how many steps it takes.
    """

    def __init__(
        self, rows: Int[Tensor, " row"], batch: int, seed: int, after: tuple[Order, int] | None = None
    ) -> None:
        self.rows = rows
        self.batch = batch
        self.seed = seed
        self.after = after
        self._epoch: tuple[int, Tensor] = (-1, rows)

    def __call__(self, step: int) -> Int[Tensor, " batch"]:
        """Rows of a step: a pure function of seed and step."""
        if self.after is not None:
            first, steps = self.after
            if step < steps:
                return first(step)
            step -= steps
        position, end = step * self.batch, (step + 1) * self.batch
        parts = []
        while position < end:
            epoch, start = divmod(position, len(self.rows))
            part = self._shuffled(epoch)[start : start + end - position]
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _shuffled(self, epoch: int) -> Tensor:
        if self._epoch[0] != epoch:
            shuffle = torch.randperm(len(self.rows), generator=generator(self.seed, "order", epoch))
            self._epoch = (epoch, self.rows[shuffle])
        return self._epoch[1]
