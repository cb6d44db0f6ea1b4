"""Which shapes are images."""

import pytest

from recombine.core.images import image_axes, is_colour


@pytest.mark.parametrize(
    ("shape", "axes", "in_colour"),
    [
        ((20, 28), (1, 20, 28), False),
        ((1, 20, 28), (1, 20, 28), False),
        ((3, 20, 28), (3, 20, 28), True),
        ((4, 20, 28), (4, 20, 28), True),
        ((2, 20, 28), (2, 20, 28), False),
        ((8, 20, 28), (8, 20, 28), False),
    ],
)
def test_axes_of_an_image(shape, axes, in_colour):
    assert image_axes(shape) == axes
    assert is_colour(shape) is in_colour


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4, 5)])
def test_other_shapes_are_no_images(shape):
    assert image_axes(shape) is None
