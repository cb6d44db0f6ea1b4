"""Tuning: whether units of a layer respond to a single factor (stripes) or to a combination of factors (bumps).

```python
curves = tuning_curves(activations, space)
curves.stripe, curves.bump                   # one number per unit
curves.summary()                             # how stripe-like and bump-like the layer is
unit_maps(activations, space, curves.most_typical("bump", 4))
```
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from recombine.core.errors import InputError, Missing, NotComputable
from recombine.core.factors import FactorSpace
from recombine.diagnostics.numerics.anova import Term, variance_components
from recombine.diagnostics.numerics.grids import BLOCK, GridArray, as_rows, enumerate_blocks

CONSTANT = 1e-12  # a unit varies if its standard deviation exceeds this share of its root mean square
TYPICAL = 0.5  # minimum index of units that count as stripe-like or bump-like


@dataclass(frozen=True)
class TuningSummary:
    """Summary of the tuning of a layer.

    Attributes:
        units: Number of units.
        constant: Number of units that are constant over the grid. All other numbers exclude them.
        stripe, bump: Unweighted mean indices of the units that vary; NaN if none does.
        weighted_stripe, weighted_bump: Means weighted by the variance of the units, so that weak units count little.
        median_stripe, median_bump: Medians over the units that vary, weighted by their variance.
        stripe_share, bump_share: Shares of the varying units with an index of at least 0.5.
        preferred: Maps factors to the share of the varying units that they have the largest main effect on.
    """

    units: int
    constant: int
    stripe: float
    bump: float
    weighted_stripe: float
    weighted_bump: float
    median_stripe: float
    median_bump: float
    stripe_share: float
    bump_share: float
    preferred: dict[str, float]


@dataclass(frozen=True, eq=False)
class TuningCurves:
    """Tuning of every unit of a layer. Constant units have NaN indices. See `tuning_curves` for the definitions.

    Attributes:
        names: Names of the factors.
        marginals: Maps factors to the mean activation at each of their values, of shape (unit, value).
        stripe: Stripe index in [0, 1].
        bump: Bump index in [0, 1], interaction × localization.
        interaction: Share of the variance that no sum of single-factor functions explains, in [0, 1].
        localization: Concentration of the response along its least concentrated factor, in [0, 1].
        preferred: Axis of the factor with the largest main effect; −1 for constant units.
        variance: Over the grid.
    """

    names: tuple[str, ...]
    marginals: dict[str, Float[np.ndarray, "unit _"]]
    stripe: Float[np.ndarray, " unit"]
    bump: Float[np.ndarray, " unit"]
    interaction: Float[np.ndarray, " unit"]
    localization: Float[np.ndarray, " unit"]
    preferred: Int[np.ndarray, " unit"]
    variance: Float[np.ndarray, " unit"]

    @property
    def constant(self) -> Bool[np.ndarray, " unit"]:
        """Units that do not vary over the grid."""
        return self.preferred < 0

    def summary(self) -> TuningSummary:
        """Summarize the tuning of the layer."""
        varies = ~self.constant
        stripe, bump, weights = self.stripe[varies], self.bump[varies], self.variance[varies]
        nothing = not varies.any()

        def mean(values: np.ndarray, by: np.ndarray | None = None) -> float:
            return math.nan if nothing else float(np.average(values, weights=by))

        shares = {name: mean(self.preferred[varies] == axis) for axis, name in enumerate(self.names)}
        return TuningSummary(
            units=len(self.stripe),
            constant=int(self.constant.sum()),
            stripe=mean(stripe),
            bump=mean(bump),
            weighted_stripe=mean(stripe, weights),
            weighted_bump=mean(bump, weights),
            median_stripe=_weighted_median(stripe, weights),
            median_bump=_weighted_median(bump, weights),
            stripe_share=mean(stripe >= TYPICAL),
            bump_share=mean(bump >= TYPICAL),
            preferred=shares,
        )

    def most_typical(
        self, kind: Literal["stripe", "bump"], n: int = 4, *, strong: bool = False
    ) -> Int[np.ndarray, " chosen"]:
        """The units with the highest index, highest first; fewer if fewer units vary. Ties are in the order of the
        units.

        `strong` omits units whose variance is below the mean over varying units. Trained networks have many units that
        rarely respond, and these are the most localized.
        """
        if kind not in ("stripe", "bump"):
            raise InputError(f"The kind of a unit must be stripe or bump. Got {kind!r} instead.")
        index = self.stripe if kind == "stripe" else self.bump
        varies = ~self.constant
        if strong and varies.any():
            varies &= self.variance >= self.variance[varies].mean() * (1 - 1e-9)
        order = np.argsort(-np.where(varies, index, -1.0), kind="stable")
        return order[: min(n, int(varies.sum()))]


def _weighted_median(values: Float[np.ndarray, " unit"], weights: Float[np.ndarray, " unit"]) -> float:
    """Weighted median: the smallest value at which half of the total weight is reached; NaN if there is no weight."""
    known = np.isfinite(values) & (weights > 0)
    if not known.any():
        return math.nan
    order = np.argsort(values[known])
    total = np.cumsum(weights[known][order])
    return float(values[known][order][np.searchsorted(total, total[-1] / 2)])


def tuning_curves(
    activations: GridArray,
    space: FactorSpace,
    *,
    block: int = BLOCK,
    components: tuple[list[Term], Float[Tensor, "term unit"]] | None = None,
) -> TuningCurves:
    """Marginals and indices of every unit of a layer.

    The variance V of a unit over the grid is the sum of the main effects V_i of single factors and of interactions
    (functional analysis of variance):

    - *stripe index* = max_i V_i / V: the share of the variance that the best single factor explains. 1 for a unit
      that varies along one factor only.
    - *interaction* = 1 − Σ_i V_i / V: the share that no sum of single-factor functions explains. 0 for a stripe and for
      a cross of two stripes.
    - *localization* = min_i (N_i − P_i) / (N_i − 1), over factors with N_i > 1 values. With the response
      r = (h − median of h)² and its profile e_i along factor i (summed over the other factors),
      P_i = (Σ e_i)² / Σ e_i² is the number of values that the response occupies: 1 if it is at a single value, N_i if
      it is uniform. Localization is 0 for a stripe, whose response is the same at every value of the other factor.
    - *bump index* = interaction × localization: a localized response to a combination. Interaction alone is also high
      for a checkerboard or noise, and localization alone is also high for a cross of stripes.

    Both indices lie in [0, 1]. A Gaussian bump of width σ = 1 on 28×28 values has stripe index 0.11 and bump
    index 0.73. They approach 0 and 1 for narrower bumps. A cross of two equal stripes has stripe index 0.5 and bump
    index 0.

    Args:
        activations: Activations of shape (cells, …). All axes except the first are units.
        space: The factor space. It needs at least two factors with more than one value.
        block: Numbers per float64 block, which bounds the memory.
        components: The `variance_components` of the activations, if they have already been computed.
    """
    rows = as_rows(activations, space, "activations")
    if sum(size > 1 for size in space.shape) < 2:
        raise NotComputable(
            Missing.NOT_APPLICABLE, f"Tuning requires at least two factors with more than one value. Got {space}."
        )
    terms, by_unit = components or variance_components(rows, space, block=block)
    main = torch.stack([by_unit[terms.index((axis,))] for axis in range(space.n_factors)])
    total = by_unit.sum(0)
    mean_square = torch.empty_like(total)
    localization = torch.empty_like(total)
    marginals = [torch.empty(rows.shape[1], size, dtype=torch.float64) for size in space.shape]
    for start, slab in enumerate_blocks(rows, block):
        here = slice(start, start + slab.shape[1])
        mean_square[here] = slab.square().mean(0)
        grid = slab.reshape(*space.shape, -1)
        for axis, marginal in enumerate(marginals):
            others = [a for a in range(space.n_factors) if a != axis]
            marginal[here] = grid.mean(others).T
        localization[here] = _localization(slab, _medians(rows[:, here]), space)
    varies = total > CONSTANT**2 * mean_square
    blank = torch.where(varies, 1.0, torch.nan).double()
    shares = main / torch.where(varies, total, torch.nan)
    interaction = (1 - shares.sum(0)).clamp(0, 1)
    best = main.argmax(0)
    return TuningCurves(
        names=space.names,
        marginals={name: marginal.numpy() for name, marginal in zip(space.names, marginals)},
        stripe=shares.amax(0).clamp(0, 1).numpy(),
        bump=(interaction * localization * blank).numpy(),
        interaction=interaction.numpy(),
        localization=(localization * blank).numpy(),
        preferred=torch.where(varies, best, -1).numpy(),
        variance=total.numpy(),
    )


def _medians(rows: Shaped[Tensor, "cell unit"]) -> Float[Tensor, " unit"]:
    """Median of each unit over the cells. In single precision, NumPy sorts several times faster than it selects."""
    own = rows if rows.dtype in (torch.float32, torch.float64) else rows.double()
    ordered = np.sort(own.T.contiguous().numpy(), axis=1)
    halves = [(len(rows) - 1) // 2, len(rows) // 2]
    return torch.from_numpy(ordered[:, halves].mean(1, dtype=np.float64))


def _localization(
    slab: Float[Tensor, "cell unit"], middle: Float[Tensor, " unit"], space: FactorSpace
) -> Float[Tensor, " unit"]:
    """Minimum over factors of (N − P) / (N − 1). It is not meaningful for constant units."""
    response = (slab - middle).square_().reshape(*space.shape, -1)
    least = torch.ones(slab.shape[1], dtype=torch.float64)
    for axis, size in enumerate(space.shape):
        if size == 1:
            continue
        others = [a for a in range(space.n_factors) if a != axis]
        profile = response.sum(others)
        occupied = profile.sum(0).square() / profile.square().sum(0).clamp_min(1e-300)
        least = torch.minimum(least, ((size - occupied) / (size - 1)).clamp(0, 1))
    return least


def unit_maps(
    activations: GridArray, space: FactorSpace, units: Sequence[int] | Int[np.ndarray, " chosen"]
) -> Float[np.ndarray, "chosen ..."]:
    """The activation of the given units over the grid, of shape (unit, *grid)."""
    rows = as_rows(activations, space, "activations")
    chosen = torch.as_tensor(np.asarray(units, dtype=np.int64))
    if len(chosen) and not (int(chosen.min()) >= 0 and int(chosen.max()) < rows.shape[1]):
        raise InputError(f"Units are numbered 0 to {rows.shape[1] - 1}. Got {list(units)}.")
    return rows[:, chosen].double().T.reshape(-1, *space.shape).numpy()
