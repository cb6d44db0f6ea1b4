"""What counts as an image, and how numbers become pictures."""

import numpy as np
import pytest

from recombine.core.images import Tone, as_pictures, image_axes, is_colour, tone_of


@pytest.mark.parametrize(
    ("shape", "axes", "colour"),
    [
        ((5, 6), (1, 5, 6), False),
        ((1, 5, 6), (1, 5, 6), False),
        ((3, 5, 6), (3, 5, 6), True),
        ((4, 5, 6), (4, 5, 6), True),
        ((2, 5, 6), (2, 5, 6), False),
        ((7,), None, False),
        ((2, 3, 4, 5), None, False),
    ],
)
def test_image_axes(shape, axes, colour):
    assert image_axes(shape) == axes
    assert is_colour(shape) is colour
    pictures = as_pictures(np.zeros((2, *shape)))
    assert (pictures is None) is (axes is None)


def test_channels_of_a_colour_go_last():
    outputs = np.random.default_rng(0).uniform(size=(2, 3, 4, 5))
    assert np.array_equal(as_pictures(outputs)[1, 2, 3], outputs[1, :, 2, 3])
    assert np.array_equal(as_pictures(outputs[:, :1]), outputs[:, 0])


@pytest.mark.parametrize(("shape", "sides"), [((5, 2, 2), (4, 6)), ((2, 3, 3), (3, 6)), ((7, 4, 2), (8, 8))])
def test_channels_without_a_colour_are_tiles(shape, sides):
    outputs = np.arange(2.0 * np.prod(shape)).reshape(2, *shape)
    pictures = as_pictures(outputs)
    assert pictures.shape == (2, *sides)
    channels, rows, columns = shape
    across = sides[1] // columns
    for channel in range(channels):
        down, right = divmod(channel, across)
        tile = pictures[:, down * rows : (down + 1) * rows, right * columns : (right + 1) * columns]
        assert np.array_equal(tile, outputs[:, channel])
    assert np.isnan(pictures[0]).sum() == np.prod(sides) - np.prod(shape)


def test_tone_is_the_square_root_on_a_dark_ground():
    dark = np.zeros((2, 4, 4))
    dark[:, 0, 0] = 0.5
    assert tone_of(dark) == Tone(0.0, 0.5, 0.5)
    assert tone_of(dark, (0.0, 1.0)) == Tone(0.0, 1.0, 0.5)
    assert tone_of(1 - dark, (0.0, 1.0)).power == 1
    assert tone_of(np.stack([dark] * 3, axis=1), (0.0, 1.0)).power == 1
    assert np.allclose(Tone()(np.array([-1.0, 0.0, 0.25, 1.0, 2.0])), [0, 0, 0.5, 1, 1])


@pytest.mark.parametrize("outputs", [np.zeros((0, 3, 3)), np.full((2, 3, 3), np.nan), np.zeros((2, 3, 3))])
def test_a_tone_without_a_range_is_usable(outputs):
    tone = tone_of(outputs)
    assert tone.high > tone.low
