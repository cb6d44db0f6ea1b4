"""The exponent of growing thresholds: against closed forms, scipy and statsmodels, and on simulated searches."""

import math

import numpy as np
import pytest
from scipy import stats

from recombine.core.errors import NotComputable
from recombine.studies.framework.growth import Observation, _Likelihood, _log_interval, fit_growth

pytestmark = pytest.mark.quick
SIDES = (16, 20, 24, 28, 32)


def simulated(power, *, seeds=8, sigma=0.2, tau=0.1, budget=math.inf, width=0.1, seed=0):
    """Searches that end with an interval of this relative width, or at the budget."""
    random = np.random.default_rng(seed)
    found = []
    for s in range(seeds):
        shift = tau * random.standard_normal()
        for side in SIDES:
            true = 0.02 * side**power * math.exp(shift + sigma * random.standard_normal())
            below = true * math.exp(-width * random.random())
            most = budget * side**2
            reached = below * math.exp(width)
            found.append(Observation(side, s, *((below, reached) if reached < most else (min(below, most), math.inf))))
    return found


def narrow(values, width=1e-7):
    """Observations known to seven digits: {(side, seed): log T}."""
    return [Observation(n, s, math.exp(v - width / 2), math.exp(v + width / 2)) for (n, s), v in values.items()]


def test_an_exact_power_law_has_its_exponent():
    fit = fit_growth([Observation(n, s, 1.999 * n**3, 2.001 * n**3) for n in SIDES for s in range(3)])
    assert fit.exponent == pytest.approx(3, abs=1e-3)
    assert fit.p_above(2.9) < 1e-3
    assert fit.p_below(3.1) < 1e-3


def test_thresholds_known_exactly_give_the_fit_of_a_mixed_model():
    import pandas
    from statsmodels.regression.mixed_linear_model import MixedLM

    random = np.random.default_rng(1)
    values = {(n, s): 1 + 2 * math.log(n) + shift + 0.3 * random.standard_normal()
              for s in range(12) for shift in [0.5 * random.standard_normal()] for n in SIDES}  # fmt: skip
    fit = fit_growth(narrow(values))
    table = pandas.DataFrame([{"n": math.log(n), "seed": s, "t": t} for (n, s), t in values.items()])
    theirs = MixedLM.from_formula("t ~ n", groups="seed", data=table).fit(reml=False)
    assert fit.exponent == pytest.approx(theirs.params["n"], abs=1e-4)
    assert fit.spread == pytest.approx(math.sqrt(theirs.scale), rel=1e-3)
    assert fit.spread_of_seeds == pytest.approx(math.sqrt(theirs.cov_re.iloc[0, 0]), rel=1e-3)
    assert fit.log_likelihood - len(values) * math.log(1e-7) == pytest.approx(theirs.llf, abs=1e-4)


def test_the_likelihood_of_censored_values_is_scipys():
    random = np.random.default_rng(2)
    values = random.normal(3.0, 0.5, 40)
    low = np.where(values > 3.4, 3.4, np.floor(values * 4) / 4)
    high = np.where(values > 3.4, np.inf, low + 0.25)
    known = np.isfinite(high)
    censored = stats.CensoredData(interval=np.stack([low, high], 1)[known], right=low[~known])
    mean, sd = stats.norm.fit(censored)
    ours = _Likelihood([Observation(16 + i % 2, i, *map(math.exp, ends)) for i, ends in enumerate(zip(low, high))])
    expected = sum(math.log(stats.norm.cdf(b, mean, sd) - stats.norm.cdf(a, mean, sd)) for a, b in zip(low, high))
    value, gradient = ours(np.array([0.0, mean, math.log(sd), math.log(1e-6)]))
    assert value == pytest.approx(expected, rel=1e-8)
    assert gradient[1:3] == pytest.approx(0, abs=0.1)  # scipy's estimate is the maximum of ours


def test_the_gradient_is_that_of_differences():
    from scipy.optimize import approx_fprime

    likelihood = _Likelihood(simulated(2.0, seeds=3, budget=0.2, seed=4))
    for at in ([2.0, 3.0, -1.0, -2.0], [0.5, 5.0, 0.3, 0.1]):
        numeric = approx_fprime(np.array(at), lambda p: likelihood(p)[0], 1e-6)
        assert likelihood(np.array(at))[1] == pytest.approx(numeric, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (5, 6), (-40, -39), (30, math.inf), (-math.inf, -2), (9, 9.001)])
def test_intervals_far_out_keep_their_digits(low, high):
    from mpmath import mp, mpf, ncdf

    mp.dps = 400
    exact = float(mp.log(ncdf(mpf(high)) - ncdf(mpf(low)))) if math.isfinite(low) else float(stats.norm.logcdf(high))
    assert _log_interval(np.array([float(low)]), np.array([float(high)]))[0] == pytest.approx(exact, rel=1e-8)


def test_censored_searches_are_not_dropped():
    """Where large thresholds are cut off by the budget, leaving them out would flatten the line."""
    kept, dropped = [], []
    for seed in range(4):
        whole = simulated(3.0, sigma=0.7, seed=seed)
        cut = [o if o.reached < 400 else Observation(o.side, o.seed, min(o.below, 400.0), math.inf) for o in whole]
        kept.append(fit_growth(cut).exponent)
        dropped.append(fit_growth([o for o in cut if math.isfinite(o.reached)]).exponent)
    assert abs(np.mean(kept) - 3) < 0.5
    assert np.mean(dropped) < 2.3


def test_intervals_cover_the_truth_and_agree_with_the_p_values():
    covered = 0
    for seed in range(3):
        fit = fit_growth(simulated(2.5, seeds=5, seed=100 + seed))
        low, high = fit.interval()
        assert low < fit.exponent < high
        assert fit.p_above(low) == pytest.approx(0.025, abs=1e-4)
        assert fit.p_below(high) == pytest.approx(0.025, abs=1e-4)
        covered += low < 2.5 < high
    assert covered >= 2


def test_counted_examples_without_any_spread_have_an_exponent():
    """2N stripes and no bump at every N: whole numbers, so each threshold is known to one example."""
    fit = fit_growth([Observation(n, s, 2.0 * n - 1, 2.0 * n) for n in SIDES for s in range(3)])
    low, high = fit.interval()
    assert 0.5 < low < 1 < high < 1.5


def test_one_side_has_no_exponent():
    with pytest.raises(NotComputable, match="two values of N"):
        fit_growth([Observation(16, 0, 10.0, 12.0), Observation(20, 0, 100.0, math.inf)])
