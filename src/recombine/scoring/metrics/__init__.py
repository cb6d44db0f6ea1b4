"""Metrics: one file each. A task is scored with all metrics that apply to it."""

from recombine.scoring.metrics.metric import METRICS, Direction, Metric, TruthMoments, metrics_of

__all__ = ["METRICS", "Direction", "Metric", "TruthMoments", "metrics_of"]
