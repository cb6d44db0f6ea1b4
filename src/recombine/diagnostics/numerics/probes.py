"""Linear probes: how well a linear map predicts the factors from a layer.

    probes = linear_probes(model, space, encode, holdout)
    probes["layers.3.act", "x", "in_sample"].r2
    probes.to_pandas()                                  # one row per layer, factor and score

There are four scores per layer and factor, each R² = 1 − Σ(y − ŷ)² / Σ(y − ȳ)², where ȳ is the mean of the scored
cells. R² ≤ 1; predicting the mean gives 0, and there is no lower bound on cells that were not fitted. A categorical
factor has no R². Its labels are fitted as one-hot vectors, and the label with the largest prediction is chosen. Its
score is the accuracy. It should be compared with `chance`, the accuracy of always predicting the label that is most
common among the fitted cells.

    in_sample    least squares fitted and scored on all cells, as in the paper (usually 1 if units outnumber cells)
    id_to_ood    least squares fitted on ID cells, scored on OOD cells
    ridge_cv     cross-validated ridge regression on ID cells: every fold is predicted by a fit to the other folds
    ridge_ood    ridge regression with the penalty selected by ridge_cv, fitted on ID cells, scored on OOD cells

Least squares use the solution of minimum norm and an intercept, like scikit-learn's LinearRegression. The penalty is
scikit-learn's `alpha`. Directions along which a layer varies by less than the rounding error are omitted. Wide layers
are fitted by their Gram matrix, so for n = 784 cells, directions below √(n ε) ≈ 4e-7 of the largest one are omitted.
A cyclic factor is represented by the cosine and sine of its angle, which are scored jointly.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from recombine.core.errors import InputError, Missing
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.seeds import generator
from recombine.diagnostics.model.layers import Encode, Subject, examine
from recombine.diagnostics.model.observing import Model, observing
from recombine.diagnostics.numerics.grids import draw_cells

if TYPE_CHECKING:
    import pandas

Score = Literal["in_sample", "id_to_ood", "ridge_cv", "ridge_ood"]
_SPLITS: dict[Score, tuple[str, str]] = {  # fitted on, scored on
    "in_sample": ("grid", "grid"),
    "id_to_ood": ("ID", "OOD"),
    "ridge_cv": ("ID", "ID"),
    "ridge_ood": ("ID", "OOD"),
}
SCORES: tuple[Score, ...] = tuple(_SPLITS)
MOST_CELLS = 1024
FEWEST_CELLS = 10
FOLDS = 5
PENALTIES = tuple(10.0**k for k in range(-8, 4))  # relative to the mean squared norm of a centred activation
MEMORY = 2**30
UNITS_AT_ONCE = 1024  # small enough to stay in the cache during the conversion to float64
KEPT_SHARE = 0.75  # share of the memory for activations that are kept; the rest is for recomputed ones
TRIANGLE = 8  # number of bands of the symmetric product, which skip most of its lower half


@dataclass(frozen=True)
class Probe:
    """The score of one probe.

    Attributes:
        layer, units: Name of the layer and its number of units.
        factor: The factor that is predicted.
        score: How the probe was fitted and scored. See the module docstring.
        r2: R² of the probe; NaN if it is missing or if the factor is categorical.
        fitted: Number of fitted cells. For ridge_cv, these are the ID cells, although each fit leaves out one fold.
        scored: Number of scored cells.
        penalty: Penalty of a ridge regression.
        accuracy, chance: Accuracies for a categorical factor, in [0, 1]; NaN for other factors and if missing.
        missing: State of a missing score (a `Missing`); empty if there is a score.
        reason: Why the score is missing; empty if there is a score.
    """

    layer: str
    units: int
    factor: str
    score: Score
    r2: float
    fitted: int
    scored: int
    penalty: float = math.nan
    accuracy: float = math.nan
    chance: float = math.nan
    missing: str = ""
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Probes:
    """All scores, indexed by layer, factor and score: `probes["out", "x", "id_to_ood"].r2`.

    Attributes:
        table: One entry per layer, factor and score.
        cells: The cells used, ID first.
        grid_cells: Number of cells of the grid; larger than that of `cells` if a random sample was probed.
        errors: Maps layers to the errors of the ridge probe of each factor at each of `cells`, in the unit of the
            factor. No cell is predicted by a fit that used it: ID cells are predicted by the fit to the other folds,
            and OOD cells by the fit to all ID cells. NaN if there is no such probe. For a cyclic factor, the error is a
            distance in the plane of its circle. For a categorical factor, it is 1 if the label is wrong and 0 if it is
            correct.
    """

    table: list[Probe]
    cells: Int[np.ndarray, " cell"]
    grid_cells: int
    errors: dict[str, Float[np.ndarray, "factor cell"]] = field(default_factory=dict)

    def __getitem__(self, key: tuple[str, str, str]) -> Probe:
        return {(p.layer, p.factor, p.score): p for p in self.table}[key]

    def to_pandas(self) -> pandas.DataFrame:
        """One row per layer, factor and score."""
        import pandas

        return pandas.DataFrame([asdict(p) for p in self.table])


def linear_probes(
    model: Model,
    space: FactorSpace,
    encode: Encode | None = None,
    holdout: Holdout | None = None,
    *,
    layers: str | Sequence[str] | None = None,
    most_cells: int = MOST_CELLS,
    folds: int = FOLDS,
    seed: int = 0,
    memory: int = MEMORY,
) -> Probes:
    """R² of linear probes for every layer and factor (Liang et al. 2025, Fig. 2).

    Args:
        model: A module or callable that maps codes to outputs. Its state is restored.
        space: The factor space.
        encode: Maps factor values to codes; None if the model takes factor values.
        holdout: Defines ID and OOD cells. Without it, all cells are ID and the OOD scores are missing.
        layers: The layers. See `recombine.diagnostics.model.layers`.
        most_cells: A larger grid is probed on a random sample of this many cells with the same proportions of ID and
            OOD cells, because the time grows with the square of the number of cells. `Probes.cells` are the cells used.
        folds: Number of folds of the cross-validation, drawn at random over ID cells.
        seed: Seed of the sample and the folds.
        memory: Bytes of activations to keep in memory. Activations that do not fit are recomputed as needed.

    Returns:
        The scores. A score that cannot be computed is NaN and has a reason: there are fewer than 10 cells to fit or to
        score, or the factor is constant over the scored cells.
    """
    if holdout is not None and holdout.space != space:
        raise InputError(f"The hold-out belongs to another space. Got {holdout.space}, expected {space}.")
    if folds < 2:
        raise InputError(f"Cross-validation needs at least 2 folds. Got folds={folds}.")
    if holdout is None:
        holdout = Holdout(space, lambda values: torch.zeros(values.shape[:-1], dtype=torch.bool))
    cells = draw_cells(holdout, most_cells, seed=seed)
    n_id = int(holdout.id_mask.ravel()[cells.numpy()].sum())
    with observing(model):
        subject = examine(model, space, encode, layers=layers)
        features = compact_features(subject, cells, memory=memory)
    units = {name: layer.units for name, layer in subject.layers.items()}
    return probes_of_features(features, units, space, cells, n_id, folds=folds, seed=seed)


def probes_of_features(
    features: Mapping[str, Features],
    units: Mapping[str, int],
    space: FactorSpace,
    cells: Int[Tensor, " cell"],
    n_id: int,
    *,
    folds: int = FOLDS,
    seed: int = 0,
) -> Probes:
    """Fit and score probes on given features.

    Args:
        features: Maps layers to features, in the order of `cells`.
        units: Maps layers to their number of units.
        space: The factor space.
        cells: The `n_id` ID cells, then the OOD cells.
        n_id: Number of ID cells.
        folds, seed: As for `linear_probes`.
    """
    targets = probe_targets(space, cells)
    labelled = {name for name, factor in space.factors.items() if factor.categorical}
    table, errors = [], {}
    for name, found in features.items():
        rows, off = _LayerProbes(name, units[name], found, targets, labelled, n_id, folds, seed).scored()
        table += rows
        errors[name] = (off * _units(space)[:, None]).numpy()
    return Probes(table, cells.numpy(), len(space), errors)


def features_of_rows(rows: Shaped[Tensor, "cell unit"]) -> Features:
    """A layer's features from all its activations, rows in the order of the cells."""
    if rows.shape[1] < len(rows):
        return Features(rows.to(torch.float64), None)
    gram = torch.zeros(len(rows), len(rows), dtype=torch.float64)
    block = [rows]
    _multiply(gram, _origin(block), block, 0, block, 0)
    return Features(None, torch.triu(gram) + torch.triu(gram, 1).T)


def probe_targets(space: FactorSpace, cells: Int[Tensor, " cell"]) -> dict[str, Float[Tensor, "cell target"]]:
    """The targets of the probes: a factor's value, (cos, sin) of a cyclic factor's angle, or a one-hot label."""
    coordinates = space.coordinates(cells).to(torch.float64)
    targets = {}
    for axis, (name, factor) in enumerate(space.factors.items()):
        column = coordinates[:, axis]
        if factor.categorical:
            targets[name] = torch.nn.functional.one_hot(column.long(), factor.size).double()
        elif factor.kind == "cyclic":
            angle = 2 * math.pi * column / factor.size
            targets[name] = torch.stack([angle.cos(), angle.sin()], dim=1)
        else:
            targets[name] = factor.value(column).unsqueeze(1)
    return targets


def _units(space: FactorSpace) -> Float[Tensor, " factor"]:
    """Scale of a probe's target in the unit of the factor: the radius of a cyclic factor's circle, otherwise 1."""
    return torch.tensor(
        [f.extent / (2 * math.pi) if f.kind == "cyclic" else 1.0 for f in space.factors.values()], dtype=torch.float64
    )


@dataclass(frozen=True)
class Features:
    """A layer's activations up to a rotation and a shift, which do not affect a probe with an intercept.

    They are stored as rows of shape (cell, unit) or, if units outnumber cells, as a Gram matrix of shape (cell, cell).
    """

    rows: Float[Tensor, "cell unit"] | None
    gram: Float[Tensor, "cell cell"] | None

    @cached_property
    def whole(self) -> Decomposed:
        """The decomposition fitted to all cells."""
        return self.decomposed(slice(None), slice(None))

    @cached_property
    def spans(self) -> bool:
        """Whether the centred activations certainly span all directions among the cells.

        If so, every target is fitted exactly. The test needs a Cholesky factorization, which is faster than an
        eigendecomposition.
        """
        if self.gram is None:
            return False
        n = len(self.gram)
        mean = self.gram.mean(0)
        centred = self.gram - mean - mean.unsqueeze(1) + mean.mean()
        largest = torch.linalg.matrix_norm(centred)  # upper bound of the eigenvalues
        centred += largest / n  # restores the constant direction, which centring removed
        centred.diagonal().sub_(4 * n * torch.finfo(torch.float64).eps * largest)  # exceeds any rounding error
        return not torch.linalg.cholesky_ex(centred).info

    def decomposed(self, fit: slice, score: slice) -> Decomposed:
        """SVD X = U S Vᵀ of the centred activations of the fitted cells, with X′ V of the scored cells."""
        if self.rows is not None:
            mean = self.rows[fit].mean(0)
            left, sizes, right = torch.linalg.svd(self.rows[fit] - mean, full_matrices=False)
            kept = sizes > max(len(left), self.rows.shape[1]) * torch.finfo(torch.float64).eps * sizes[:1]
            return Decomposed(left[:, kept], sizes[kept], (self.rows[score] - mean) @ right[kept].T)
        assert self.gram is not None
        inner = self.gram[fit, fit]
        mean = inner.mean(0)
        values, left = torch.linalg.eigh(inner - mean - mean.unsqueeze(1) + mean.mean())
        kept = values > len(values) * torch.finfo(torch.float64).eps * values[-1:]
        left, sizes = left[:, kept], values[kept].sqrt()
        if fit == score:
            return Decomposed(left, sizes, left * sizes)
        across = self.gram[score, fit]
        across = across - across.mean(1, keepdim=True) - mean + mean.mean()
        return Decomposed(left, sizes, across @ left / sizes)


@dataclass(frozen=True)
class Decomposed:
    """SVD of the centred activations of the fitted cells, and the scored cells projected on the same directions."""

    left: Float[Tensor, "fitted direction"]
    sizes: Float[Tensor, " direction"]
    scored: Float[Tensor, "scored direction"]

    def predict(self, targets: Float[Tensor, "fitted target"], penalty: float = 0.0) -> Float[Tensor, "scored target"]:
        """Fit least squares (minimum norm) or ridge regression, and predict the scored cells."""
        mean = targets.mean(0)
        weights = self.left.T @ (targets - mean) * (self.sizes / (self.sizes.square() + penalty)).unsqueeze(1)
        return mean + self.scored @ weights

    def left_out(
        self,
        targets: Float[Tensor, "fitted target"],
        penalties: Float[Tensor, " penalty"],
        folds: Sequence[Int[Tensor, " _"]],
    ) -> Float[Tensor, "penalty fitted target"]:
        """Residuals of each fold of a ridge regression that is fitted to the other folds, computed without refitting.

        Let H be the matrix that maps targets to fitted values. The residuals of a left-out fold F are exactly
        (I − H_FF)⁻¹ (y − Hy)_F for every regression whose loss is quadratic in its weights.
        """
        n = len(targets)
        shares = penalties[:, None] / (self.sizes.square() + penalties[:, None])  # eigenvalues of I − H
        spanned = len(self.sizes) == n - 1  # then I − H has no other component, and rounding must not add one
        centred = targets - targets.mean(0)
        along = self.left.T @ centred
        residuals = self.left @ (shares[:, :, None] * along) + (0 if spanned else centred - self.left @ along)
        out = torch.empty_like(residuals)
        for fold in folds:
            here = self.left[fold]
            rest = (here * shares[:, None]) @ here.T
            if not spanned:
                rest += torch.eye(len(fold), dtype=targets.dtype) - 1 / n - here @ here.T
            out[:, fold] = torch.linalg.solve(rest, residuals[:, fold])
        return out


def r_squared(truth: Float[Tensor, "cell target"], found: Float[Tensor, "cell target"]) -> float:
    """1 − Σ(y − ŷ)² / Σ(y − ȳ)², summed over target columns. NaN if the truth is constant."""
    spread = (truth - truth.mean(0)).square().sum()
    return float(1 - (truth - found).square().sum() / spread) if spread > 0 else math.nan


@dataclass(frozen=True)
class _LayerProbes:
    """All probes of one layer. They share the decompositions of its features."""

    layer: str
    units: int
    features: Features
    targets: dict[str, Float[Tensor, "cell _"]]
    labelled: set[str]
    n_id: int
    folds: int
    seed: int

    @property
    def n(self) -> int:
        return len(next(iter(self.targets.values())))

    @property
    def splits(self) -> dict[str, slice]:
        return {"grid": slice(0, self.n), "ID": slice(0, self.n_id), "OOD": slice(self.n_id, self.n)}

    @cached_property
    def whole(self) -> Decomposed | None:
        """The fit to all cells; None if every target is fitted exactly."""
        return None if self.features.spans else self.features.whole

    @cached_property
    def within(self) -> Decomposed:
        """The fit to the ID cells, applied to the OOD cells."""
        return self.features.decomposed(self.splits["ID"], self.splits["OOD"])

    @cached_property
    def tried(self) -> dict[str, CrossValidated]:
        """The cross-validated ridge regression of each factor."""
        random = generator(self.seed, "probe folds")
        parts = torch.randperm(self.n_id, generator=random).tensor_split(min(self.folds, max(1, self.n_id)))
        known = {factor: y[: self.n_id] for factor, y in self.targets.items()}
        return _cross_validate(self.within, known, self.labelled, parts)

    def scored(self) -> tuple[list[Probe], Float[Tensor, "factor cell"]]:
        """All scores, and the ridge probe's error at each cell."""
        errors = torch.full((len(self.targets), self.n), math.nan, dtype=torch.float64)
        for row, (factor, y) in enumerate(self.targets.items()):
            if not _missing(factor, "ID", y[: self.n_id])[0]:
                errors[row] = self._errors(factor, y)
        return [self._probe(factor, score) for factor in self.targets for score in SCORES], errors

    def _errors(self, factor: str, y: Float[Tensor, "cell _"]) -> Float[Tensor, " cell"]:
        found = self.tried[factor]
        new = self.within.predict(y[: self.n_id], found.penalty)
        predicted = torch.cat([y[: self.n_id] - found.residuals, new])
        if factor in self.labelled:
            return (predicted.argmax(1) != y.argmax(1)).double()
        return torch.linalg.vector_norm(y - predicted, dim=1)

    def _probe(self, factor: str, score: Score) -> Probe:
        y, (fit, scored) = self.targets[factor], _SPLITS[score]
        sizes = {name: where.stop - where.start for name, where in self.splits.items()}
        about = (self.layer, self.units, factor, score)
        counts = {"fitted": sizes[fit], "scored": sizes[scored]}
        states = (_missing(factor, name, y[self.splits[name]]) for name in (fit, scored))
        missing, reason = next((pair for pair in states if pair[0]), ("", ""))
        if missing:
            return Probe(*about, math.nan, **counts, missing=missing, reason=reason)
        penalty = self.tried[factor].penalty if score.startswith("ridge") else math.nan
        truth, predicted = y[self.splits[scored]], self._predicted(factor, score)
        if factor not in self.labelled:
            return Probe(*about, r_squared(truth, predicted), **counts, penalty=penalty)
        share, by_chance = accuracy(truth, predicted), _chance(y[self.splits[fit]], truth)
        return Probe(*about, math.nan, **counts, penalty=penalty, accuracy=share, chance=by_chance)

    def _predicted(self, factor: str, score: Score) -> Float[Tensor, "scored _"]:
        y = self.targets[factor]
        known = y[self.splits["ID"]]
        if score == "in_sample":
            return y if self.whole is None else self.whole.predict(y)
        if score == "ridge_cv":
            return known - self.tried[factor].residuals
        return self.within.predict(known, self.tried[factor].penalty if score == "ridge_ood" else 0.0)


def accuracy(truth: Float[Tensor, "cell label"], found: Float[Tensor, "cell label"]) -> float:
    """Share of cells at which the correct label has the largest prediction."""
    return float((found.argmax(1) == truth.argmax(1)).double().mean())


def _chance(fitted: Float[Tensor, "fitted label"], scored: Float[Tensor, "scored label"]) -> float:
    """Accuracy on the scored cells of always predicting the label that is most common among the fitted cells."""
    return float(scored[:, int(fitted.sum(0).argmax())].mean())


def _missing(factor: str, name: str, y: Tensor) -> tuple[str, str]:
    """State and reason if a set of cells cannot be fitted or scored; empty strings otherwise."""
    if len(y) < FEWEST_CELLS:
        return Missing.TOO_FEW_CELLS.value, f"{len(y)} {name} cells, fewer than {FEWEST_CELLS}"
    if bool((y == y[0]).all()):
        return Missing.DEGENERATE.value, f"{factor} is the same at all {name} cells"
    return "", ""


class CrossValidated(NamedTuple):
    """Result of the ridge regression with the best penalty. Each fold is predicted by a fit to the other folds."""

    penalty: float
    residuals: Float[Tensor, "cell target"]


def _cross_validate(
    within: Decomposed,
    targets: dict[str, Float[Tensor, "cell _"]],
    labelled: Collection[str],
    folds: Sequence[Int[Tensor, " _"]],
) -> dict[str, CrossValidated]:
    """Select the best penalty for each factor by squared error, or by accuracy and then squared error for labels.

    Ties are resolved in favour of the largest penalty.
    """
    joined = torch.cat(list(targets.values()), dim=1)
    widths = [y.shape[1] for y in targets.values()]
    scale = float(within.sizes.square().sum()) / len(joined)
    penalties = scale * torch.tensor(PENALTIES, dtype=torch.float64)
    best = {}
    for (name, y), left in zip(targets.items(), within.left_out(joined, penalties, folds).split(widths, dim=2)):
        squares = left.square().sum((1, 2)).tolist()
        right = [accuracy(y, y - residuals) if name in labelled else 0.0 for residuals in left]
        index = max(range(len(squares)), key=lambda i: (right[i], -squares[i], i))
        best[name] = CrossValidated(float(penalties[index]), left[index])
    return best


def compact_features(subject: Subject, cells: Int[Tensor, " cell"], *, memory: int = MEMORY) -> dict[str, Features]:
    """The activations of every layer at the given cells, in float64 and at most of size (cell, cell).

    Layers with more units than cells are stored as Gram matrices, summed over slices of units. As many activations are
    kept as fit into `memory`. The others are recomputed for every block of kept activations.
    """
    try:
        return _compact(subject, cells, memory, copies=False)
    except _MemoryReused:
        return _compact(subject, cells, memory, copies=True)


def _compact(subject: Subject, cells: Int[Tensor, " cell"], memory: int, copies: bool) -> dict[str, Features]:
    n = len(cells)
    wide = [name for name, layer in subject.layers.items() if layer.units >= n]
    narrow = {
        name: torch.empty(n, layer.units, dtype=torch.float64)
        for name, layer in subject.layers.items()
        if name not in wide
    }
    grams = {name: torch.zeros(n, n, dtype=torch.float64) for name in wide}
    width = max(1, sum(subject.layers[name].units for name in wide) * subject.dtype.itemsize)
    fitting = max(2, memory // width)
    kept = n if fitting >= n else math.ceil(fitting * KEPT_SHARE)
    origins: dict[str, Tensor] = {}
    for start in range(0, n, kept):
        block: dict[str, Rows] = {name: [] for name in wide}
        _collect(subject, cells, start, min(start + kept, n), wide=block, narrow=narrow, held=[] if copies else [block])
        origins = origins or {name: _origin(parts) for name, parts in block.items()}
        for name, gram in grams.items():
            _multiply(gram, origins[name], block[name], start, block[name], start)
        for other in range(start + kept, n, max(1, fitting - kept)):
            stop = min(other + max(1, fitting - kept), n)
            passing: dict[str, Rows] = {name: [] for name in wide}
            held = [] if copies else [block, passing]
            _collect(subject, cells, other, stop, wide=passing, narrow=narrow, held=held)
            for name, gram in grams.items():
                _multiply(gram, origins[name], block[name], start, passing[name], other)
    found = {name: Features(rows, None) for name, rows in narrow.items()}
    found |= {name: Features(None, torch.triu(gram) + torch.triu(gram, 1).T) for name, gram in grams.items()}
    return {name: found[name] for name in subject.layers}


Rows = list[Tensor]  # tensors (cell, unit) as returned by the model, not concatenated to save time


class _MemoryReused(Exception):
    """The model overwrote an earlier activation that is still needed."""


def _collect(
    subject: Subject,
    cells: Tensor,
    start: int,
    stop: int,
    *,
    wide: dict[str, Rows],
    narrow: dict[str, Tensor],
    held: Sequence[dict[str, Rows]],
) -> None:
    """Store the rows of cells start … stop − 1.

    `held` contains the rows of wide layers that are still needed. They are kept without a copy, unless they are a view
    of a larger tensor, which would then stay in memory. Other rows are copied.
    """
    chunk = subject.cells_within()
    with torch.no_grad():
        for first in range(start, stop, chunk):
            last = min(first + chunk, stop)
            values = subject.values(cells[first:last])
            rows = subject.rows(values)
            subject.check_finite(rows, values)
            for name, row in rows.items():
                if name in narrow:
                    narrow[name][first:last] = row
                    continue
                if any(row.data_ptr() == part.data_ptr() for block in held for part in block[name]):
                    raise _MemoryReused
                part_of_more = row.untyped_storage().nbytes() > row.nbytes
                row = row.detach().cpu()  # a model may enable gradients
                wide[name].append(row.clone() if part_of_more or not held else row)


def _origin(rows: Rows) -> Float[Tensor, " unit"]:
    """Approximate mean of the rows. Products of centred rows lose fewer digits. Half precision would overflow."""
    dtype = torch.promote_types(rows[0].dtype, torch.float32)
    return (torch.stack([part.sum(0, dtype=dtype) for part in rows]).sum(0) / sum(map(len, rows))).to(torch.float64)


def _centred(rows: Rows, units: slice, origin: Float[Tensor, " unit"]) -> Float[Tensor, "cell some"]:
    """Centred activations of some units at all cells, in double precision."""
    found = torch.empty(sum(map(len, rows)), len(origin[units]), dtype=torch.float64)
    for part, place in zip(rows, found.split([len(part) for part in rows])):
        place.copy_(part[:, units])  # converting before subtracting is twice as fast as mixing two precisions
    return found.sub_(origin[units])


def _multiply(gram: Tensor, origin: Float[Tensor, " unit"], above: Rows, row: int, below: Rows, column: int) -> None:
    """Add the inner products of two blocks of cells to the upper triangle of a Gram matrix."""
    n = sum(map(len, above))
    target = gram[row : row + n, column : column + sum(map(len, below))]
    band = math.ceil(n / TRIANGLE)
    for start in range(0, len(origin), UNITS_AT_ONCE):
        units = slice(start, start + UNITS_AT_ONCE)
        left = _centred(above, units, origin)
        if below is above:
            for i in range(0, n, band):
                target[i : i + band, i:].addmm_(left[i : i + band], left[i:].T)
        else:
            target.addmm_(left, _centred(below, units, origin).T)
