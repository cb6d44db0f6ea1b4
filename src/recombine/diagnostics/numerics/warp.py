"""Warp: how the geometry of a model's outputs differs from that of the true images (Liang et al. 2025, Fig. 4)."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from recombine.core.holdouts import Holdout


def warp(
    log_volume: Float[np.ndarray, " cell"], truth: Float[np.ndarray, " cell"], holdout: Holdout
) -> dict[str, float]:
    """Compare log₁₀ dv of the outputs and of the truth, d = log₁₀ dv − log₁₀ dv of the truth.

    Returns:
        truth_log_volume_id, truth_log_volume_ood: Mean log₁₀ dv of the truth on ID and OOD cells.
        distortion_id, distortion_ood: Mean |d| on ID and OOD cells; 0 is right.
        warp: Mean d on OOD cells minus mean d on ID cells: negative if the hold-out is shrunk.
        roughness_ood: Mean of `neighbour_differences`.
        …_median: The same with medians instead of means, which are robust to single cells.
    """
    trained, held, d = holdout.id_mask.ravel(), holdout.ood_mask.ravel(), log_volume - truth
    steps = neighbour_differences(log_volume, holdout)
    return {
        "truth_log_volume_id": _mean(truth[trained]),
        "truth_log_volume_ood": _mean(truth[held]),
        "distortion_id": _mean(np.abs(d[trained])),
        "distortion_ood": _mean(np.abs(d[held])),
        "warp": _mean(d[held]) - _mean(d[trained]),
        "roughness_ood": _mean(steps),
        "distortion_id_median": _median(np.abs(d[trained])),
        "distortion_ood_median": _median(np.abs(d[held])),
        "warp_median": _median(d[held]) - _median(d[trained]),
        "roughness_ood_median": _median(steps),
    }


def neighbour_differences(log_volume: Float[np.ndarray, " cell"], holdout: Holdout) -> Float[np.ndarray, " pair"]:
    """|difference| of log₁₀ dv between cells that are both held out and neighbours along a factor; NaN elsewhere."""
    plane = np.where(holdout.ood_mask, log_volume.reshape(holdout.space.shape), math.nan)
    axes = [axis for axis, factor in enumerate(holdout.space.factors.values()) if factor.differentiable]
    steps = [np.abs(np.diff(plane, axis=axis)).ravel() for axis in axes]
    return np.concatenate(steps) if steps else np.empty(0)


def _mean(values: Float[np.ndarray, "..."]) -> float:
    """Without NaNs; NaN if there is nothing else."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def _median(values: Float[np.ndarray, "..."]) -> float:
    """Without NaNs; NaN if there is nothing else."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan
