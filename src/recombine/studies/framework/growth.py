"""Growth of a threshold with N: a mixed model with interval-censored observations, fitted by maximum likelihood.

The threshold T of seed s at side N follows

    log T = α + β · log N + a_s + ε,   a_s ~ Normal(0, τ²),   ε ~ Normal(0, σ²)

A search only finds that T lies in (below, reached], or that it was not reached within the budget, (below, ∞). Both
enter the likelihood as the probability of the interval, with a_s integrated out numerically. Dropping the
searches that did not reach the threshold, or using `reached` as T, would bias β.

    fit = fit_growth([Observation(16, 0, 48, 64), Observation(32, 0, 240, math.inf), …])
    fit.exponent, fit.interval(), fit.p_above(2.5)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from jaxtyping import Float

from recombine.core.errors import Missing, NotComputable
from recombine.studies.framework.inference import ALPHA

NODES, FARTHEST = 161, 8.0  # trapezoidal rule over a_s / τ, exact up to rounding unless τ > 20 σ
LEAST_SPREAD, MOST_SPREAD = 1e-3, 1e2  # bounds of σ and τ, in units of log T
LOG_ROOT = 0.5 * math.log(2 * math.pi)
STEEPEST = 20.0  # exponents are searched between −20 and 20


@dataclass(frozen=True)
class Observation:
    """The threshold of one seed at one N, which lies in (`below`, `reached`]. Infinity means not reached."""

    side: int
    seed: int
    below: float
    reached: float


@dataclass(frozen=True, eq=False)
class GrowthFit:
    """A fitted exponent β of T ∝ N^β. p-values and interval use the signed root of the likelihood ratio.

    Attributes:
        exponent: β.
        scale: α, at the geometric mean of all N.
        spread: σ.
        spread_of_seeds: τ.
        log_likelihood: The maximum of the log-likelihood.
        observations: The fitted observations.
    """

    exponent: float
    scale: float
    spread: float
    spread_of_seeds: float
    log_likelihood: float
    observations: tuple[Observation, ...]

    @cached_property
    def _likelihood(self) -> _Likelihood:
        return _Likelihood(self.observations)

    def _root(self, exponent: float) -> float:
        """Signed root of the likelihood ratio; positive if the fitted exponent is above the given one."""
        start = np.array([exponent, self.scale, math.log(self.spread), math.log(self.spread_of_seeds)])
        _, best = self._likelihood.maximize(exponent=exponent, start=start)
        return math.copysign(math.sqrt(max(0.0, 2 * (self.log_likelihood - best))), self.exponent - exponent)

    def p_above(self, exponent: float) -> float:
        """p-value of the null hypothesis that β is not above this exponent."""
        from scipy.stats import norm

        return float(norm.sf(self._root(exponent)))

    def p_below(self, exponent: float) -> float:
        """p-value of the null hypothesis that β is not below this exponent."""
        from scipy.stats import norm

        return float(norm.cdf(self._root(exponent)))

    def interval(self, level: float = 1 - 2 * ALPHA) -> tuple[float, float]:
        """Profile-likelihood interval of β; infinite on a side that the data do not bound."""
        from scipy.optimize import brentq
        from scipy.stats import norm

        wanted = float(norm.ppf((1 + level) / 2))
        ends = []
        for sign in (1, -1):
            far = self.exponent - sign * 0.25
            while abs(self._root(far)) < wanted and abs(far) < STEEPEST:
                far -= sign * 2 * abs(far - self.exponent)
            if abs(self._root(far)) < wanted:
                ends.append(-sign * math.inf)
                continue
            near = self.exponent
            ends.append(cast(float, brentq(lambda b, sign=sign: sign * self._root(b) - wanted, near, far, xtol=1e-5)))
        return ends[0], ends[1]


class _Likelihood:
    """The likelihood of interval-censored observations, with the seeds integrated out."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        with np.errstate(divide="ignore"):
            low = np.log(np.array([max(o.below, 0.0) for o in observations], dtype=np.float64))
            high = np.log(np.array([o.reached for o in observations], dtype=np.float64))
        sides = np.log(np.array([o.side for o in observations], dtype=np.float64))
        self.middle = float(sides.mean())
        self.low, self.high, self.sides = low, high, sides - self.middle
        seeds = sorted({o.seed for o in observations})
        self.member = np.array([[o.seed == seed for o in observations] for seed in seeds], dtype=np.float64)
        self.nodes = np.linspace(-FARTHEST, FARTHEST, NODES)
        weights = np.exp(-(self.nodes**2) / 2)
        self.log_weights = np.log(weights / weights.sum())
        middles = np.where(np.isfinite(high), (np.where(np.isfinite(low), low, high) + high) / 2, low)
        slope, level = np.polyfit(self.sides, middles, 1) if np.ptp(sides) else (0.0, middles.mean())
        residual = float(np.std(middles - level - slope * self.sides))
        self.start = np.array([slope, level, math.log(max(residual, 0.05)), math.log(0.1)])

    def __call__(self, parameters: Float[np.ndarray, "4"]) -> tuple[float, Float[np.ndarray, "4"]]:
        """Log-likelihood of (β, α, log σ, log τ) and its gradient."""
        from scipy.special import logsumexp

        exponent, scale, sigma, tau = *parameters[:2], *np.exp(parameters[2:])
        centre = scale + exponent * self.sides + tau * self.nodes[:, None]
        low, high = (self.low - centre) / sigma, (self.high - centre) / sigma
        inside = _log_interval(low, high)
        by_seed = inside @ self.member.T + self.log_weights[:, None]
        total = np.asarray(logsumexp(by_seed, axis=0))
        share = np.exp(by_seed - total) @ self.member  # weight of each node, for the seed of each observation
        at_low, at_high = (np.exp(np.where(np.isfinite(z), -(z**2) / 2 - LOG_ROOT - inside, -np.inf))
                           for z in (low, high))  # fmt: skip
        shift = share * (at_low - at_high) / sigma  # derivative by the centre
        widths = at_low * np.where(np.isfinite(low), low, 0.0) - at_high * np.where(np.isfinite(high), high, 0.0)
        gradient = [(shift * self.sides).sum(), shift.sum(), (share * widths).sum(), tau * (shift.T @ self.nodes).sum()]
        return float(total.sum()), np.array(gradient)

    def maximize(
        self, *, exponent: float | None = None, start: Float[np.ndarray, "4"] | None = None
    ) -> tuple[Float[np.ndarray, "4"], float]:
        """Maximize over (β, α, log σ, log τ), with β fixed if it is given. Returns the parameters and the maximum."""
        from scipy.optimize import minimize

        spread = (math.log(LEAST_SPREAD), math.log(MOST_SPREAD))
        slopes = (-STEEPEST, STEEPEST) if exponent is None else (exponent, exponent)
        bounds = [slopes, (-100.0, 100.0), spread, spread]
        given = (self.start if start is None else start).copy()
        if exponent is not None:
            given[0] = exponent
        best, value = given, -math.inf
        for log_tau in (given[3], math.log(LEAST_SPREAD)):  # τ → 0 may be a separate maximum
            first = np.clip(np.array([*given[:3], log_tau]), *np.array(bounds).T)
            found = minimize(lambda p: tuple(-part for part in self(p)), first, jac=True, method="L-BFGS-B",
                             bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 1000})  # fmt: skip
            if -found.fun > value:
                best, value = found.x, -float(found.fun)
        return best, value


def _log_interval(low: Float[np.ndarray, "..."], high: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """log(Φ(high) − Φ(low)) without loss of precision in the tails."""
    from scipy.special import log_ndtr

    swap = low > 0  # by symmetry, both ends can be moved to the lower tail
    above, below = np.where(swap, -low, high), np.where(swap, -high, low)
    upper, lower = log_ndtr(above), log_ndtr(below)
    return upper + np.log(-np.expm1(np.minimum(lower - upper, -1e-300)))


def fit_growth(observations: Sequence[Observation]) -> GrowthFit:
    """Fit T ∝ N^β to the thresholds of all sides and seeds jointly.

    Raises:
        NotComputable: If the threshold was reached at fewer than two sides.
    """
    reached = {o.side for o in observations if math.isfinite(o.reached)}
    if len(reached) < 2:
        raise NotComputable(
            Missing.NOT_APPLICABLE,
            f"Estimating an exponent requires thresholds for at least two values of N. Got {len(reached)}.",
        )
    likelihood = _Likelihood(observations)
    best, value = likelihood.maximize()
    exponent, scale, log_sigma, log_tau = map(float, best)
    return GrowthFit(exponent, scale, math.exp(log_sigma), math.exp(log_tau), value, tuple(observations))
