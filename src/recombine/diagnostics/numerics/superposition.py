"""Superposition: tests whether the output for an unseen combination is a sum of training outputs.

    test = superposition(outputs, space, holdout, truth=images)              # output side, any code
    test = superposition_of_inputs(outputs, model, encode, space, holdout)   # input side, population codes
    test.cosine, test.cosine_truth                                           # one number per OOD cell

The *output side* (the default) compares the output D(c) for an OOD cell c with the mean of the model's outputs for all
ID cells that share at least one factor value with c. The *input side* compares it with
Σ_i D(v_i, mean code of the other factors), which is D(x, ȳ) + D(x̄, y) for two factors (Liang et al. 2025, §3.3). Both
comparisons are up to scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.core.errors import InputError, Missing, NotComputable
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.diagnostics.model.layers import Encode, batch_limit
from recombine.diagnostics.model.observing import Model, module_of, observing
from recombine.diagnostics.model.truth import Truth, as_truth
from recombine.diagnostics.numerics.anova import subsets
from recombine.diagnostics.numerics.grids import BLOCK, GridArray, as_rows, enumerate_blocks, id_and_ood

CODES_AT_ONCE = 16  # number of codes whose activations are in memory at a time
PICTURES = 5
Values = Callable[[Tensor], Tensor]  # maps cells to their factor values, of shape (cell, factor)


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images of a few cells. Arrays have the shape (picture, *output), where output is the shape of one output.

    Attributes:
        cells: The OOD cells.
        output: The outputs D(c).
        superposition: The superpositions, multiplied by their best scale; NaN if there is none.
        parts: The part of each factor, unscaled, of shape (picture, factor, …).
        truth: The truth; None if it was not given.
    """

    cells: Int[np.ndarray, " picture"]
    output: Float[np.ndarray, "picture ..."]
    superposition: Float[np.ndarray, "picture ..."]
    parts: Float[np.ndarray, "picture factor ..."]
    truth: Float[np.ndarray, "picture ..."] | None


@dataclass(frozen=True, eq=False)
class Superposition:
    """Comparison of the output D for each OOD cell with a superposition S. All arrays are in the order of `cells`.

    Attributes:
        side: "output" or "input".
        cells: The OOD cells.
        cosine: ⟨D, S⟩ / ‖D‖‖S‖, in [−1, 1]. NaN if D or S is zero up to rounding. On the output side, S is zero if no
            ID cell shares a value.
        cosine_truth: Cosine of D with the truth; None without truth.
        truth_superposition: Cosine of the truth with S, which is the `cosine` of a model with correct outputs.
        scale: The a ≥ 0 that minimizes ‖D − a·S‖: max(0, ⟨D, S⟩ / ⟨S, S⟩).
        energy: Share of ‖D‖² explained by a·S: 1 − ‖D − a·S‖²/‖D‖² = max(0, cosine)², in [0, 1].
        factor_scales: Least-squares scales a_i of D ≈ Σ_i a_i S_i, where S_i is the part of factor i. If the parts are
            linearly dependent, the solution has minimum norm.
        factor_energy: Share of ‖D‖² explained by that sum, in [0, 1]; at least `energy` for two factors.
        factor_cosine: Cosine of D with each part alone.
        shared: Number of ID cells that contribute to S on the output side; 0 for the input side.
        centred: Whether the mean ID output was first subtracted from D, S and S_i, and the ID mean of the truth from
            the truth.
        pictures: Pictures of a few cells, never centred.
    """

    side: str
    cells: Int[np.ndarray, " ood"]
    cosine: Float[np.ndarray, " ood"]
    cosine_truth: Float[np.ndarray, " ood"] | None
    truth_superposition: Float[np.ndarray, " ood"] | None
    scale: Float[np.ndarray, " ood"]
    energy: Float[np.ndarray, " ood"]
    factor_scales: Float[np.ndarray, "ood factor"]
    factor_energy: Float[np.ndarray, " ood"]
    factor_cosine: Float[np.ndarray, "ood factor"]
    shared: Int[np.ndarray, " ood"]
    centred: bool
    pictures: Pictures


def superposition(
    outputs: GridArray,
    space: FactorSpace,
    holdout: Holdout,
    *,
    truth: GridArray | Truth | None = None,
    centred: bool = False,
    pictures: int | Sequence[int] = PICTURES,
    block: int = BLOCK,
) -> Superposition:
    """Output side: compare D(c) for every OOD cell c with the mean output of the ID cells that share a value with c.

    The part of factor i is the mean output of the ID cells that share the value of factor i. Sums over ID cells are
    computed once per set of factors and combined by inclusion–exclusion, in blocks of features, without a copy of the
    outputs.

    Args:
        outputs: The model's output for every cell, of shape (cells, …).
        space: The factor space.
        holdout: Defines the OOD cells.
        truth: The correct outputs, with the same shape.
        centred: Subtract the mean ID output from all images first. Use it for images with a bright background, whose
            cosines would otherwise all be close to 1.
        pictures: Number of OOD cells whose images are stored, spread evenly, or the cells themselves.
        block: Numbers per float64 block, which bounds the memory.
    """
    rows = as_rows(outputs, space)
    trained, ood = id_and_ood(holdout, space)
    right = None if truth is None else _RightOutputs(as_truth(truth, space, rows.shape[1]), trained, ood, centred)
    where = space.coordinates(ood.nonzero()[:, 0])
    shared, per_factor = _shared_sums(trained[:, None].double(), where, space)
    vectors = _Accumulated(ood, _picked(pictures, ood))
    for start, slab in enumerate_blocks(rows, block):
        background = _background(slab, trained, centred)
        slab -= background
        output = slab[ood]
        slab[~trained] = 0
        total, parts = _shared_sums(slab, where, space)
        pieces = [output, total / shared.clamp_min(1)]
        pieces += [part / count.clamp_min(1) for part, count in zip(parts, per_factor)]
        vectors.add(pieces, background, None if right is None else right.block(start, slab.shape[1]))
    return _report("output", vectors, space, shared[:, 0], centred, outputs)


def _shared_sums(
    trained: Float[Tensor, "cell block"], where: Int[Tensor, "ood factor"], space: FactorSpace
) -> tuple[Float[Tensor, "ood block"], list[Float[Tensor, "ood block"]]]:
    """Sums over the ID cells that share at least one value with each OOD cell, and the value of each factor.

    `trained` is 0 outside the ID cells. No ID cell shares all values with an OOD cell, so the set of all factors is
    omitted.
    """
    grid = trained.reshape(*space.shape, -1)
    total = torch.zeros(len(where), grid.shape[-1], dtype=torch.float64)
    single = []
    for shared in subsets(range(space.n_factors)):
        others = [axis for axis in range(space.n_factors) if axis not in shared]
        if others:
            here = grid.sum(others)[tuple(where[:, axis] for axis in shared)]
            total += (-1) ** (len(shared) + 1) * here
        else:
            here = torch.zeros_like(total)
        if len(shared) == 1:
            single.append(here)
    return total, single


def superposition_of_inputs(
    outputs: GridArray,
    model: Model,
    encode: Encode,
    space: FactorSpace,
    holdout: Holdout,
    *,
    truth: GridArray | Truth | None = None,
    centred: bool = False,
    pictures: int | Sequence[int] = PICTURES,
    block: int = BLOCK,
    made: Sequence[Float[Tensor, "_ feature"]] | None = None,
) -> Superposition:
    """Input side: compare D(c) for every OOD cell c with Σ_i D(v_i, mean code of the other factors).

    The code of a value v of factor i with the other factors at their mean is the mean code over the ID cells with
    factor i set to v. For a code with one block of units per factor, it consists of v's block and the mean blocks x̄, ȳ
    of the other factors over the training set. This test is not meaningful for codes whose mean is the code of another
    value (the ramp code). Use the output side for them.

    Args:
        outputs: The model's output for every cell, of shape (cells, …).
        model: Maps codes (batch, …) to outputs (batch, …). A module runs in eval mode, and its state is restored.
        encode: Maps factor values (batch, factor) to codes (batch, …).
        space, holdout, truth, centred, pictures, block: As for `superposition`.
        made: The result of `outputs_of_mean_codes`, if it has already been computed.
    """
    rows = as_rows(outputs, space)
    trained, ood = id_and_ood(holdout, space)
    right = None if truth is None else _RightOutputs(as_truth(truth, space, rows.shape[1]), trained, ood, centred)
    made = outputs_of_mean_codes(model, encode, space, holdout, rows.shape[1]) if made is None else made
    where = space.coordinates(ood.nonzero()[:, 0])
    vectors = _Accumulated(ood, _picked(pictures, ood))
    for start, slab in enumerate_blocks(rows, block):
        here = slice(start, start + slab.shape[1])
        background = _background(slab, trained, centred)
        parts = [made[axis][where[:, axis], here] - background for axis in range(space.n_factors)]
        pieces = [slab[ood] - background, torch.stack(parts).sum(0), *parts]
        vectors.add(pieces, background, None if right is None else right.block(start, slab.shape[1]))
    none = torch.zeros(int(ood.sum()), dtype=torch.float64)
    return _report("input", vectors, space, none, centred, outputs)


def outputs_of_mean_codes(
    model: Model,
    encode: Encode,
    space: FactorSpace,
    holdout: Holdout,
    features: int,
    values: Values | None = None,
) -> list[Float[Tensor, "_ feature"]]:
    """For each factor, the output for each of its values with the other factors at their mean code.

    With two factors, these are D(x, ȳ) for every x and D(x̄, y) for every y. `features` is the size of one output.
    `values` maps cells to the factor values that `encode` expects. By default, these are the values of the space in
    torch's default precision.
    """
    trained, _ = id_and_ood(holdout, space)
    return [_decode(model, codes, features) for codes in _mean_codes(encode, space, trained, values)]


def _mean_codes(
    encode: Encode, space: FactorSpace, trained: Bool[Tensor, " cell"], values: Values | None = None
) -> list[Float[Tensor, "value ..."]]:
    """For each factor, the code of each of its values with the other factors at their mean over the ID cells."""
    counts = trained.double().reshape(space.shape)
    totals: list[Tensor] = []
    shape: tuple[int, ...] = ()
    for cells in space.chunks():
        codes = encode(space.values(cells) if values is None else values(cells))
        if not isinstance(codes, Tensor) or len(codes) != len(cells):
            raise InputError(f"The encoding must return a tensor with one code per row of values. Got {_shown(codes)}.")
        if not codes.is_floating_point():
            raise NotComputable(
                Missing.NOT_APPLICABLE,
                f"The input side averages codes, which requires real numbers. Got {codes.dtype}. Use the output side.",
            )
        shape = tuple(codes.shape[1:])
        flat = codes.detach().cpu().double().reshape(len(codes), -1)
        totals = totals or [torch.zeros(size, flat.shape[1], dtype=torch.float64) for size in space.shape]
        coordinates = space.coordinates(cells)
        for axis, total in enumerate(totals):
            weights = counts.sum(axis, keepdim=True).expand(space.shape).flatten()[cells]
            total.index_add_(0, coordinates[:, axis], weights[:, None] * flat)
    return [(total / counts.sum()).reshape(-1, *shape) for total in totals]


def _decode(model: Model, codes: Float[Tensor, "value ..."], features: int) -> Tensor:
    """The model's outputs for the given codes, of shape (value, feature), in float64. The model's state is restored."""
    module = module_of(model)
    tensors = [] if module is None else [*module.parameters(), *module.buffers()]
    like = next((tensor for tensor in tensors if tensor.is_floating_point()), None)
    codes = codes.to(torch.get_default_dtype()) if like is None else codes.to(like.device, like.dtype)
    with torch.no_grad(), observing(model):
        some = [model(part) for part in codes.split(min(batch_limit(model) or CODES_AT_ONCE, CODES_AT_ONCE))]
    made = torch.cat(some) if all(isinstance(one, Tensor) and one.ndim for one in some) else some[0]
    if not isinstance(made, Tensor) or len(made) != len(codes) or made[0].numel() != features:
        raise InputError(
            f"The model must return {features} numbers, like the given outputs, for each of {len(codes)} codes. Got "
            f"{_shown(made)}."
        )
    if not bool(made.isfinite().all()):
        raise NotComputable(Missing.NOT_APPLICABLE, "The model returns NaN or infinite numbers for mean codes.")
    return made.detach().cpu().double().reshape(len(made), -1)


def _shown(thing: object) -> str:
    return f"shape {tuple(thing.shape)}" if isinstance(thing, Tensor) else type(thing).__name__


class _RightOutputs:
    """The truth of the OOD cells, and its mean over ID cells.

    The truth is centred by its own mean. With the mean output of an untrained model, its cosine would reflect the
    model's error instead of the differences between cells.
    """

    def __init__(self, truth: Truth, trained: Bool[Tensor, " cell"], ood: Bool[Tensor, " cell"], centred: bool) -> None:
        self.rows = truth.rows(ood.nonzero()[:, 0])
        none = torch.zeros(truth.size, dtype=torch.float64)
        self.background = truth.mean(trained.nonzero()[:, 0]) if centred else none

    def block(self, start: int, size: int) -> tuple[Float[Tensor, "ood block"], Float[Tensor, " block"]]:
        """A block of features without the background, and the background."""
        background = self.background[start : start + size]
        return self.rows[:, start : start + size].double() - background, background


def _background(
    slab: Float[Tensor, "cell block"], trained: Bool[Tensor, " cell"], centred: bool
) -> Float[Tensor, " block"]:
    return slab[trained].mean(0) if centred else slab.new_zeros(slab.shape[1])


def _picked(pictures: int | Sequence[int], ood: Bool[Tensor, " cell"]) -> Int[Tensor, " picture"]:
    """Indices, among the OOD cells, of the cells whose images are stored."""
    cells = ood.nonzero()[:, 0]
    if isinstance(pictures, int):
        count = max(0, min(pictures, len(cells)))
        return ((torch.arange(count) + 0.5) * len(cells) / max(count, 1)).long()
    row_of = {int(cell): row for row, cell in enumerate(cells)}
    unknown = [cell for cell in pictures if cell not in row_of]
    if unknown:
        raise InputError(f"Pictures must show OOD cells. Not held out: {', '.join(map(str, unknown))}.")
    return torch.tensor([row_of[cell] for cell in pictures], dtype=torch.long)


class _Accumulated:
    """Inner products of D, S, the parts S_i and the truth for every OOD cell, and the vectors of a few cells."""

    def __init__(self, ood: Bool[Tensor, " cell"], picked: Int[Tensor, " picture"]) -> None:
        self.cells, self.picked = ood.nonzero()[:, 0], picked
        self.products: Tensor | None = None
        self.pictures: list[Tensor] = []
        self.taken: list[Tensor] = []  # the background subtracted from each vector; it is the same for all cells
        self.background = 0.0  # energy of the background

    def add(
        self,
        vectors: list[Float[Tensor, "ood block"]],
        background: Float[Tensor, " block"],
        right: tuple[Float[Tensor, "ood block"], Float[Tensor, " block"]] | None,
    ) -> None:
        """Add the contribution of one block of features, from which the background has been subtracted."""
        taken = [background] * len(vectors)
        if right is not None:
            vectors, taken = [*vectors, right[0]], [*taken, right[1]]
        stacked = torch.stack(vectors, dim=1)
        products = stacked @ stacked.mT
        self.products = products if self.products is None else self.products.add_(products)
        self.pictures.append(stacked[self.picked])
        self.taken.append(torch.stack(taken))
        self.background += float(background.square().sum())


def _report(
    side: str,
    vectors: _Accumulated,
    space: FactorSpace,
    shared: Float[Tensor, " ood"],
    centred: bool,
    outputs: GridArray,
) -> Superposition:
    """Turn inner products into cosines, scales and energies."""
    assert vectors.products is not None
    products, n = vectors.products, space.n_factors
    squares = products.diagonal(dim1=1, dim2=2)
    nothing = squares <= 1e-26 * (squares.max() + vectors.background)
    norms = torch.where(nothing, torch.nan, squares).sqrt()
    cosines = (products / norms[:, :, None] / norms[:, None, :]).clamp(-1, 1)
    parts = slice(2, 2 + n)
    scale = (products[:, 0, 1] / norms[:, 1].square()).clamp_min(0)
    inverse = torch.linalg.pinv(products[:, parts, parts], hermitian=True, rtol=1e-10)
    factor_scales = (inverse @ products[:, parts, :1]).squeeze(-1)
    explained = (factor_scales * products[:, parts, 0]).sum(1) / norms[:, 0].square()
    has_truth = products.shape[1] > 2 + n
    return Superposition(
        side=side,
        cells=vectors.cells.numpy(),
        cosine=cosines[:, 0, 1].numpy(),
        cosine_truth=cosines[:, 0, -1].numpy() if has_truth else None,
        truth_superposition=cosines[:, 1, -1].numpy() if has_truth else None,
        scale=scale.numpy(),
        energy=cosines[:, 0, 1].clamp_min(0).square().numpy(),
        factor_scales=factor_scales.numpy(),
        factor_energy=explained.clamp(0, 1).numpy(),
        factor_cosine=cosines[:, 0, parts].numpy(),
        shared=shared.long().numpy(),
        centred=centred,
        pictures=_pictures(vectors, scale, tuple(outputs.shape[1:]), n, has_truth),
    )


def _pictures(
    vectors: _Accumulated,
    scale: Float[Tensor, " ood"],
    shape: tuple[int, ...],
    n: int,
    has_truth: bool,
) -> Pictures:
    found = torch.cat(vectors.pictures, dim=-1)
    found[:, 1] *= scale[vectors.picked][:, None]
    found = (found + torch.cat(vectors.taken, dim=-1)).reshape(*found.shape[:2], *shape).numpy()
    cells = vectors.cells[vectors.picked].numpy()
    return Pictures(cells, found[:, 0], found[:, 1], found[:, 2 : 2 + n], found[:, -1] if has_truth else None)
