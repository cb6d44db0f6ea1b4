"""Colours of all figures and of the page, and figures outside pyplot's global state."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OUTLINE = "#d7301f"
HATCH = "0.6"  # of unavailable cells
# The colour-blind safe colours of Okabe and Ito (2008)
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#e69f00", "#009e73", "#cc79a7"
SKY, VERMILION, BLACK, YELLOW = "#56b4e9", "#d55e00", "#000000", "#f0e442"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, BLACK, YELLOW)  # of series, in order
CLASS_COLOURS = (GREEN, SKY, VERMILION, ORANGE, PURPLE, BLUE, YELLOW, "#4d4d4d", "#b8b8b8")  # of areas, in order
PAGE_COLOURS = (  # of series on the page: similar colours that stand out from a bright and from a dark ground
    "#3b8ad9", "#c97a00", "#159a6b", "#cc6fa3", "#8a6fd1", "#d55e00", "#4f93b8", "#8a8a8a",
)  # fmt: skip
BLUES = ("#08519c", "#6baed6", "#c6dbef", "#eff3ff")  # of an order, from the first on
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def new_figure(width: float, height: float) -> Figure:
    """Create a figure outside pyplot's global state, so that library calls never leak windows."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
