"""Pictures of hold-outs."""

from matplotlib.figure import Figure

from recombine.core.factors import FactorSpace
from recombine.core.holdouts import centre
from recombine.plotting.grids import hold_out


def test_the_hold_out_is_drawn_on_the_axes_given():
    axes = Figure().add_subplot()
    assert hold_out(centre(FactorSpace(x=28, y=28)), axes) is axes
    assert "289 of 784" in axes.get_title()
