"""What counts as an image: the one place that decides it for decoders, metrics, figures and the page."""

from __future__ import annotations

from collections.abc import Sequence

COLOUR = (3, 4)  # numbers of channels that are shown as colour: RGB, RGBA


def image_axes(shape: Sequence[int]) -> tuple[int, int, int] | None:
    """(channels, rows, columns) of an output shape; None if it is no image.

    (row, column) has one channel, (channel, row, column) any number. One channel is grey, three are RGB, four RGBA;
    any other number are channels without a colour. Vectors and shapes of more axes are no images.
    """
    if len(shape) == 2:
        return 1, int(shape[0]), int(shape[1])
    if len(shape) == 3:
        return int(shape[0]), int(shape[1]), int(shape[2])
    return None


def is_colour(shape: Sequence[int]) -> bool:
    """Whether an output of this shape is shown in colour."""
    axes = image_axes(shape)
    return axes is not None and axes[0] in COLOUR
