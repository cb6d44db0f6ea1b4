"""How well trained outputs explain the output for a cell: one of them, or sums of several."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.core.factors import FactorSpace
from recombine.diagnostics.cells.memories import Memories, choose_memories, choose_strangers, steps_apart
from recombine.diagnostics.cells.nonnegative_sums import nonnegative_weights, sparse_weights, unexplained
from recombine.diagnostics.cells.products import Products

AS_WELL = 0.02  # additional share of an output's energy that a sparse sum may leave unexplained
NOTHING = 1e-12  # energy, relative to the largest, that is rounding error
AT_ONCE = 256  # cells whose memories are compared together
CANCELS = 0.3  # share of its parts' energies below which a sum does not count, because its parts cancel one another


@dataclass(frozen=True, eq=False)
class MemoryFit:
    """Residual energies ‖o − explanation‖² of some cells; ∞ where there is no memory.

    Attributes:
        energy: Of `mean`: ‖o − μ‖², where μ is the mean trained output.
        blank: Of the nearest blank output (`products.blank_energy`).
        flat: Of b·μ + c: the residual of the following if they explain nothing.
        single: Of a·o_r + b·μ + c with a ≥ 0, for the best trained cell r.
        sum: Of Σ w_r o_r + b·μ + c with w ≥ 0, over the cell's memories.
        strangers: The same over as many trained cells that share no value; ∞ if there is none.
        ghosts: Of a·t + Σ w_r o_r + b·μ + c with a, w ≥ 0, where t is the truth; ∞ without truth.
        ghost_truth: ‖a·t‖² in that sum, without its flat part.
        single_cell, single_weight: r and a of `single`; −1 and 0 without one.
        memory_cells, memory_weights: Those of `sum`, largest weight first; padded with −1 and 0.
    """

    energy: Float[np.ndarray, " cell"]
    blank: Float[np.ndarray, " cell"]
    flat: Float[np.ndarray, " cell"]
    single: Float[np.ndarray, " cell"]
    sum: Float[np.ndarray, " cell"]
    strangers: Float[np.ndarray, " cell"]
    ghosts: Float[np.ndarray, " cell"]
    ghost_truth: Float[np.ndarray, " cell"]
    single_cell: Int[np.ndarray, " cell"]
    single_weight: Float[np.ndarray, " cell"]
    memory_cells: Int[np.ndarray, "cell memory"]
    memory_weights: Float[np.ndarray, "cell memory"]


@dataclass(frozen=True, eq=False)
class TrueProducts:
    """Inner products of the truth t of some cells, with the flat parts of both sides removed.

    Attributes:
        energy: ‖t‖².
        output: ⟨t, the cell's own output⟩.
        pool: ⟨t, trained outputs⟩.
    """

    energy: Float[Tensor, " cell"]
    output: Float[Tensor, " cell"]
    pool: Float[Tensor, "cell pool"]


def fit_memories(
    found: Products,
    space: FactorSpace,
    *,
    looked: Int[Tensor, " cell"],
    pool: Int[Tensor, " pool"],
    cells: Int[Tensor, " all"],
    allowed: Bool[Tensor, "cell pool"],
    truth: TrueProducts | None = None,
    seed: int,
) -> MemoryFit:
    """Explain the outputs of some cells by those of trained ones.

    Args:
        found: Inner products of all cells in `cells`.
        space: The factor space.
        looked: Which of `cells` are explained, as indices into it.
        pool: Which of `cells` are trained ones to choose from, as indices into it.
        cells: Numbers of the cells.
        allowed: Which of the pool each cell may use.
        truth: The truth's products with the outputs of the explained cells and of the pool.
        seed: Seed of the sample of strangers.
    """
    raised = found.raised
    energy = raised.diagonal().clamp_min(0)
    at = space.coordinates(cells)
    parts = []
    for rows in torch.arange(len(looked)).split(AT_ONCE):
        some, allow = looked[rows], allowed[rows]
        apart = steps_apart(space, at[some], at[pool])
        cross = raised[some][:, pool].clamp_min(0)
        own = energy[pool]
        likeness = cross.square() / torch.where(own > NOTHING * own.amax(), own, torch.inf)
        memories = choose_memories(space, apart, allow, likeness)
        strangers = choose_strangers(apart, allow, likeness, memories.exists.sum(1), seed=seed)
        part = _single(energy[some], cross, own, likeness, allow)
        part["single_cell"] = torch.where(part["single_weight"] > 0, cells[pool[part["single_cell"]]], -1)
        part |= _best_sum(raised, some, pool, cells, memories)
        part["strangers"] = _sum(raised, some, pool, strangers)[1]
        part |= _ghosts(raised, some, pool, memories, rows, truth)
        parts.append(part)
    joined = {name: _join([part[name] for part in parts]) for name in parts[0]}
    return MemoryFit(
        energy=found.energy[looked].numpy(),
        blank=found.blank[looked].numpy(),
        flat=energy[looked].numpy(),
        **{name: array.numpy() for name, array in joined.items()},
    )


def _best_sum(raised: Tensor, looked: Tensor, pool: Tensor, cells: Tensor, memories: Memories) -> dict[str, Tensor]:
    weights, left = _sum(raised, looked, pool, memories, shown=True)
    numbers = torch.where(memories.exists, cells[pool[memories.column]], -1)
    weights, order = weights.sort(dim=1, descending=True, stable=True)
    numbers = torch.where(weights > 0, numbers.gather(1, order), -1)
    return {"sum": left, "memory_cells": numbers, "memory_weights": weights}


def _single(energy: Tensor, cross: Tensor, own: Tensor, likeness: Tensor, allowed: Tensor) -> dict[str, Tensor]:
    """The best single trained output at any strength: its residual, its index in the pool, and its weight."""
    explained, which = torch.where(allowed, likeness, 0.0).max(1)
    weight = torch.where(explained > 0, cross.gather(1, which[:, None]).squeeze(1) / own[which].clamp_min(1e-300), 0.0)
    left = torch.where(allowed.any(1), (energy - explained).clamp_min(0), torch.inf)
    return {"single": left, "single_cell": which, "single_weight": weight}


def _system(raised: Tensor, looked: Tensor, pool: Tensor, memories: Memories) -> tuple[Tensor, Tensor, Tensor]:
    """Inner products among each cell's memories, of these with its output, and its energy."""
    columns, exists = pool[memories.column], memories.exists
    cross = torch.where(exists, raised[looked[:, None], columns], 0.0)
    gram = raised[columns[:, :, None], columns[:, None, :]]
    gram = torch.where(exists[:, :, None] & exists[:, None, :], gram, 0.0)
    return gram, cross, raised.diagonal()[looked].clamp_min(0)


def _sum(
    raised: Tensor, looked: Tensor, pool: Tensor, memories: Memories, *, shown: bool = False
) -> tuple[Tensor, Tensor]:
    """Weights of the best sum of each cell's memories, and its residual.

    `shown`: use as few memories as suffice, and none if they cancel one another. Without it, as for the control, any
    sum counts.
    """
    gram, cross, energy = _system(raised, looked, pool, memories)
    if memories.column.shape[1] == 0:
        return torch.zeros(len(looked), 0, dtype=torch.float64), torch.full_like(energy, torch.inf)
    weights = nonnegative_weights(gram, cross)
    if shown:
        weights = sparse_weights(gram, cross, energy, weights, slack=AS_WELL * energy)
        weights = weights * _adds_up(gram, weights)[:, None]
    left = unexplained(gram, cross, energy, weights)
    return weights, torch.where(memories.exists.any(1), left, torch.inf)


def _adds_up(gram: Tensor, weights: Tensor) -> Tensor:
    """Whether the parts of each sum add up instead of cancelling one another: ‖Σ w a‖² ≥ 0.3 · Σ w² ‖a‖².

    With their mean removed, many memories span all directions even with weights ≥ 0, for example the negative of each
    of them. Such a sum shows none of its memories.
    """
    built = (weights * (gram @ weights[:, :, None]).squeeze(-1)).sum(1)
    parts = (weights.square() * gram.diagonal(dim1=1, dim2=2)).sum(1)
    return built >= CANCELS * parts


def _ghosts(
    raised: Tensor, looked: Tensor, pool: Tensor, memories: Memories, rows: Tensor, truth: TrueProducts | None
) -> dict[str, Tensor]:
    """The best sum of the truth and memories."""
    gram, cross, energy = _system(raised, looked, pool, memories)
    if truth is None:
        return {"ghosts": torch.full_like(energy, torch.inf), "ghost_truth": torch.zeros_like(energy)}
    beside = torch.where(memories.exists, truth.pool[rows].gather(1, memories.column), 0.0)
    gram = torch.cat([gram, beside[:, None, :]], dim=1)
    own = truth.energy[rows].clamp_min(1e-300)
    last = torch.cat([beside, own[:, None]], dim=1)
    gram = torch.cat([gram, last[:, :, None]], dim=2)
    cross = torch.cat([cross, truth.output[rows][:, None]], dim=1)
    weights = nonnegative_weights(gram, cross)
    return {"ghosts": unexplained(gram, cross, energy, weights), "ghost_truth": weights[:, -1].square() * own}


def _join(parts: list[Tensor]) -> Tensor:
    """The rows of all parts; narrower ones are padded with −1 (cells) or 0 (weights)."""
    if parts[0].ndim == 1:
        return torch.cat(parts)
    width = max(part.shape[1] for part in parts)
    fill = -1 if parts[0].dtype == torch.long else 0
    return torch.cat([torch.nn.functional.pad(part, (0, width - part.shape[1]), value=fill) for part in parts])
