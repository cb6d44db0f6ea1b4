"""Warp against closed forms, and the geometry part with both methods and the truth's own geometry."""

import math

import numpy as np
import pytest
import torch

import recombine as rc
from recombine.core.errors import Missing
from recombine.diagnostics.numerics.geometry import metric_tensor_exact, metric_tensor_finite_difference
from recombine.diagnostics.numerics.warp import neighbour_differences, warp

SPACE = rc.FactorSpace(x=6, y=5)
HOLE = rc.holdouts.centre(SPACE, 2, 3)
OPTIONS = {"parts": "geometry", "progress": False}


def curve(values):
    """Images whose metric tensor varies over the plane."""
    x, y = values.double().unbind(-1)
    return torch.stack([x.sin(), y.cos(), x * y / 5, x - y], dim=1)


def test_a_scaled_truth_is_distorted_evenly():
    found = rc.diagnose(lambda v: 10 * curve(v), SPACE, None, HOLE, target=curve, **OPTIONS)["geometry"]
    [row] = found.table("warp")
    assert row["distortion_id"] == pytest.approx(2, abs=1e-5)  # dv grows by the scale for each of two factors
    assert row["distortion_ood"] == pytest.approx(2, abs=1e-5)
    assert row["warp"] == pytest.approx(0, abs=1e-5)
    exact = metric_tensor_exact(curve, SPACE)["out"].log_volume
    np.testing.assert_allclose(found.arrays["true_log_volume"], exact, atol=1e-6)
    assert row["truth_log_volume_ood"] == pytest.approx(exact[HOLE.ood_mask.ravel()].mean(), abs=1e-6)


def test_a_hold_out_that_shrinks_has_a_negative_warp():
    held = HOLE.ood_mask.ravel()
    log_volume = np.where(held, -1.0, 0.5)
    found = warp(log_volume, np.zeros(30), HOLE)
    assert found["warp"] == -1.5
    assert (found["distortion_id"], found["distortion_ood"]) == (0.5, 1.0)
    assert found["roughness_ood"] == 0
    log_volume[HOLE.ood_cells[0]] += 3  # one of 2 × 2 cells: two of four neighbourhoods
    found = warp(log_volume, np.zeros(30), HOLE)
    assert found["roughness_ood"] == found["roughness_ood_median"] == 1.5
    assert (found["warp"], found["warp_median"]) == (-0.75, -1.5)  # the median does not follow a single cell
    assert (found["distortion_id_median"], found["distortion_ood_median"]) == (0.5, 1.0)
    assert np.isnan(neighbour_differences(np.full(30, np.nan), HOLE)).all()
    assert math.isnan(warp(np.full(30, np.nan), np.zeros(30), HOLE)["roughness_ood"])


def test_roughness_is_that_of_pairs_within_the_hold_out():
    space = rc.FactorSpace(x=8, y=8)
    holdout = rc.holdouts.centre(space, 2, 5)
    slope = np.broadcast_to(0.3 * np.arange(8.0)[:, None], (8, 8)).ravel().copy()
    assert warp(slope, np.zeros(64), holdout)["roughness_ood"] == pytest.approx(0.15)  # 0.3 along x, 0 along y
    slope[holdout.ood_cells[0]] = math.nan  # dv = 0 there: left out
    assert math.isfinite(warp(slope, np.zeros(64), holdout)["roughness_ood"])


def test_both_methods_stand_side_by_side():
    def model(v):
        return torch.tanh(curve(v))

    both = rc.diagnose(model, SPACE, None, HOLE, target=curve, geometry=["exact", "finite difference"], **OPTIONS)
    part = both["geometry"]
    oracles = {
        "exact": metric_tensor_exact(model, SPACE),
        "finite difference": metric_tensor_finite_difference(model, SPACE),
    }
    for method, which in (("exact", ""), ("finite difference", " by finite difference")):
        oracle = oracles[method]["out"]
        np.testing.assert_allclose(part.arrays[f"metric{which}/out"], oracle.metric, rtol=1e-5, atol=1e-8)
        [row] = [
            r for r in part.rows if (r["method"], r["layer"], r["cells"], r["pair"]) == (method, "out", "all", "all")
        ]
        assert row["factorization_pointwise"] == pytest.approx(oracle.factorization_pointwise().overall, abs=1e-6)
    assert [row["method"] for row in part.table("warp")] == ["exact", "finite difference"]
    one = rc.diagnose(model, SPACE, None, HOLE, target=curve, **OPTIONS)
    assert one["geometry"].rows == [r for r in part.rows if r["method"] == "exact"]
    assert str(one) == str(both)  # the overview is that of the first method


def test_an_array_of_targets_has_differences_only():
    target = curve(SPACE.values(torch.arange(30)))
    found = rc.diagnose(curve, SPACE, None, HOLE, target=target, geometry=["exact", "finite difference"], **OPTIONS)
    part = found["geometry"]
    assert part.missing["warp, exact"].state is Missing.NOT_DIFFERENTIABLE
    [row] = part.table("warp")
    assert row["method"] == "finite difference"
    assert row["distortion_id"] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize(
    ("given", "state"), [({"holdout": HOLE}, Missing.NO_TRUTH), ({"target": curve}, Missing.NO_HOLDOUT)]
)
def test_warp_needs_truth_and_holdout(given, state):
    part = rc.diagnose(curve, SPACE, **given, **OPTIONS)["geometry"]
    assert part.missing["warp, exact"].state is state
    assert part.computed
