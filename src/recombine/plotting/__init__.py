"""Figures, drawn from arrays: nothing here trains. Colour maps are perceptually uniform and colour-blind safe."""

from recombine.plotting.grids import grid_axes, hold_out, landscape, outline
from recombine.plotting.images import comparison, show_image
from recombine.plotting.style import new_figure

__all__ = ["comparison", "grid_axes", "hold_out", "landscape", "new_figure", "outline", "show_image"]
