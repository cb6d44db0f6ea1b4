"""Pictures of hold-outs."""

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from recombine.core.factors import FactorSpace
from recombine.core.holdouts import centre, mask
from recombine.plotting.grids import grid_axes, hold_out, landscape


def test_the_hold_out_is_drawn_on_the_axes_given():
    axes = Figure().add_subplot()
    assert hold_out(centre(FactorSpace(x=28, y=28)), axes) is axes
    assert "289 of 784" in axes.get_title()


COLOURS = ["red", "green", "dark blue", "yellow"]
LABELLED = FactorSpace(colour=COLOURS, size=[0.5, 0.7, 1.0], x=2)


def hatched(axes) -> set[tuple[int, int]]:
    """The cells that are hatched."""
    found = [c for c in axes.collections if isinstance(c, PolyCollection) and c.get_hatch()]
    return {
        tuple(path.vertices[:4].mean(0).round().astype(int).tolist()) for drawn in found for path in drawn.get_paths()
    }


def test_axes_are_labelled_with_labels():
    axes = grid_axes(LABELLED, None)
    assert [text.get_text() for text in axes.get_xticklabels()] == COLOURS
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0.5", "0.7", "1"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("colour", "size")
    numbers = grid_axes(FactorSpace(x=28, y=3), None)
    assert [text.get_text() for text in numbers.get_xticklabels()] == ["0", "7", "14", "20", "27"]


def test_unavailable_cells_are_hatched_and_not_averaged():
    available = np.ones(LABELLED.shape, bool)
    available[2, 1] = available[0, 0, 0] = False
    held = mask(LABELLED, np.arange(24) % 5 == 0).within(available)
    assert hatched(hold_out(held)) == {(2, 1)}
    assert hatched(hold_out(mask(LABELLED, np.arange(24) % 5 == 0))) == set()
    values = np.where(available, 0.5, np.nan)
    values[0, 0, 1] = 0.25
    axes = landscape(held, values, "mse")
    assert hatched(axes) == {(2, 1)}
    plane = np.ma.filled(axes.images[0].get_array(), np.nan)
    assert plane[0, 0] == 0.25
    assert np.isnan(plane[1, 2])
    assert np.nanmax(plane) == 0.5
