"""Figures from arrays, without any training. Colour maps are perceptually uniform and colour-blind safe.

Matplotlib is imported with the first figure, so that colours and labels are available without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recombine.plotting.grids import grid_axes, hatch_unavailable, hold_out, landscape, outline
    from recombine.plotting.images import comparison, show_output
    from recombine.plotting.style import new_figure

_HOME = {
    "comparison": "images", "grid_axes": "grids", "hatch_unavailable": "grids", "hold_out": "grids",
    "landscape": "grids", "new_figure": "style", "outline": "grids", "show_output": "images",
}  # fmt: skip

__all__ = [
    "comparison",
    "grid_axes",
    "hatch_unavailable",
    "hold_out",
    "landscape",
    "new_figure",
    "outline",
    "show_output",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"recombine.plotting.{_HOME[name]}"), name)
    raise AttributeError(f"module 'recombine.plotting' has no attribute {name!r}")
