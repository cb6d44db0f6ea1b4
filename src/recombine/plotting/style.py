"""What all figures share: colours, axis labels, and figures outside pyplot's global state."""

from __future__ import annotations

from matplotlib.figure import Figure

OUTLINE = "#d7301f"
LABELS = {
    "mse": "mean squared error",
    "position_error": "position error (px)",
    "localized": "localized",
    "ssim": "SSIM",
}


def new_figure(width: float, height: float) -> Figure:
    """A figure of its own, outside pyplot's global state, so that library calls never leak windows."""
    return Figure(figsize=(width, height), layout="constrained")
