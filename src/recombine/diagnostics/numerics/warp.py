"""Warp: compares the geometry of a model's outputs with that of the true images (Liang et al. 2025, Fig. 4)."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from recombine.core.holdouts import Holdout
from recombine.core.statistics import median


def warp(
    log_volume: Float[np.ndarray, " cell"], truth: Float[np.ndarray, " cell"], holdout: Holdout
) -> dict[str, float]:
    """Compare the volume elements of outputs and truth by d = log₁₀ dv of the outputs − log₁₀ dv of the truth.

    Returns:
        truth_log_volume_id, truth_log_volume_ood: Mean log₁₀ dv of the truth on ID and OOD cells.
        distortion_id, distortion_ood: Mean |d| on ID and OOD cells; 0 for correct outputs.
        warp: Mean d on OOD cells minus mean d on ID cells. It is negative if the hold-out is contracted.
        roughness_ood: Mean of `neighbour_differences` of the outputs.
        …_median: The same with medians instead of means. Medians are robust to outlier cells.
    """
    d = log_volume - truth
    id_cells, ood_cells = holdout.id_mask.ravel(), holdout.ood_mask.ravel()
    d_id, d_ood = _known(d[id_cells]), _known(d[ood_cells])
    steps = _known(neighbour_differences(log_volume, holdout))
    return {
        "truth_log_volume_id": _mean(_known(truth[id_cells])),
        "truth_log_volume_ood": _mean(_known(truth[ood_cells])),
        "distortion_id": _mean(np.abs(d_id)),
        "distortion_ood": _mean(np.abs(d_ood)),
        "warp": _mean(d_ood) - _mean(d_id),
        "roughness_ood": _mean(steps),
        "distortion_id_median": median(np.abs(d_id)),
        "distortion_ood_median": median(np.abs(d_ood)),
        "warp_median": median(d_ood) - median(d_id),
        "roughness_ood_median": median(steps),
    }


def neighbour_differences(log_volume: Float[np.ndarray, " cell"], holdout: Holdout) -> Float[np.ndarray, " pair"]:
    """Absolute differences of log₁₀ dv between neighbouring cells along every factor; NaN unless both are held out."""
    plane = np.where(holdout.ood_mask, log_volume.reshape(holdout.space.shape), math.nan)
    axes = [axis for axis, factor in enumerate(holdout.space.factors.values()) if factor.differentiable]
    steps = [np.abs(np.diff(plane, axis=axis)).ravel() for axis in axes]
    return np.concatenate(steps) if steps else np.empty(0)


def _known(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " known"]:
    return values[np.isfinite(values)]


def _mean(known: Float[np.ndarray, " known"]) -> float:
    return float(known.mean()) if len(known) else math.nan
