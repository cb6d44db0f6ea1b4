"""Defines which outputs are images and how they are shown, for decoders, metrics, figures and the page.

A grey image is shown as the square root of its brightness, which makes the faint traces of a failing decoder visible,
or unchanged if the background is bright. Colours are shown unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Shaped

COLOUR = (3, 4)  # numbers of channels that are shown as colour: RGB, RGBA
Row0 = Literal["bottom", "top"]  # where row 0 is drawn


def image_axes(shape: Sequence[int]) -> tuple[int, int, int] | None:
    """(channels, rows, columns) of an output shape; None if it is not an image.

    (row, column) has one channel, (channel, row, column) any number. One channel is grey, three are RGB, four RGBA;
    other numbers are channels without a colour. Vectors and shapes with more axes are not images.
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


def as_pictures(outputs: Shaped[np.ndarray, "cell ..."]) -> Shaped[np.ndarray, "cell row column *channel"] | None:
    """Outputs in drawing order: (cell, row, column) in grey, (cell, row, column, 3 or 4) in colour.

    Channels without a colour become grey tiles, side by side in lines that make the whole about as wide as high; the
    rest of the last line is NaN. None for outputs that are not images.
    """
    axes = image_axes(outputs.shape[1:])
    if axes is None:
        return None
    channels, rows, columns = axes
    if channels in COLOUR:
        return np.moveaxis(outputs, 1, -1)
    if channels == 1:
        return outputs.reshape(-1, rows, columns)
    across = min(channels, max(1, math.ceil(math.sqrt(channels * rows / columns))))
    down = math.ceil(channels / across)
    tiles = np.full((len(outputs), down * across, rows, columns), np.nan, dtype=np.result_type(outputs, np.float32))
    tiles[:, :channels] = outputs
    tiles = tiles.reshape(-1, down, across, rows, columns).transpose(0, 1, 3, 2, 4)
    return tiles.reshape(-1, down * rows, across * columns)


@dataclass(frozen=True)
class Tone:
    """How numbers become brightness: (v − low) / (high − low), clipped to [0, 1], to a power."""

    low: float = 0.0
    high: float = 1.0
    power: float = 0.5

    def __call__(self, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.clip((values - self.low) / (self.high - self.low), 0, 1) ** self.power


def tone_of(truth: Shaped[np.ndarray, "cell ..."], value_range: Sequence[float] | None = None) -> Tone:
    """The tone that shows some outputs.

    Args:
        truth: The outputs that it should suit, (cell, *output_shape).
        value_range: The range of their values; by default from 0, or from the smallest value if it is negative, to the
            largest.
    """
    known = truth[np.isfinite(truth)] if truth.size else truth
    least, most = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    low, high = value_range if value_range is not None else (min(0.0, least), most)
    high = high if high > low else low + 1.0
    bright = known.size > 0 and float(known.mean()) > (low + high) / 2
    return Tone(low, high, 1.0 if bright or is_colour(truth.shape[1:]) else 0.5)
