"""Shifts of images by fractions of a pixel, as phases of their Fourier transforms.

    torch.fft.irfft2(torch.fft.rfft2(image) * shift_phases(shift, image.shape[-2:]), s=image.shape[-2:])

A shift by d multiplies the frequency k of an axis with n pixels by exp(−2πi k d / n). This is exact for periodic,
band-limited images: the result is the trigonometric interpolation of the pixels. Whole-pixel shifts move pixels as they
are. Sharp edges, which a pixel grid does not resolve, ripple when they are moved by a fraction.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Complex, Float
from torch import Tensor

STEPS = 8  # of Gauss–Newton


def shift_phases(
    shift: Float[Tensor, "*batch 2"], grid: tuple[int, int]
) -> Complex[Tensor, "*batch frequency_row frequency_column"]:
    """The factors by which a shift (rows, columns), in pixels, multiplies the `rfft2` of images on a grid."""
    down = _phases(shift[..., 0], grid[0], torch.fft.fftfreq(grid[0], 1 / grid[0]))
    right = _phases(shift[..., 1], grid[1], torch.fft.rfftfreq(grid[1], 1 / grid[1]))
    return down.unsqueeze(-1) * right.unsqueeze(-2)


def refined_shifts(
    pictures: Float[Tensor, "picture channel row column"],
    reference: Float[Tensor, "channel row column"],
    shifts: Float[Tensor, "picture 2"],
) -> tuple[Float[Tensor, "picture 2"], Float[Tensor, "picture channel row column"]]:
    """Shifts (rows, columns), in fractions of a pixel, that bring a reference closest to each picture.

    Gauss–Newton steps from the given shifts, at most a pixel away from them.

    Returns:
        The shifts and the moved references.
    """
    rows, columns = reference.shape[-2:]
    grid = (2 * rows, 2 * columns)
    spectrum = torch.fft.rfft2(reference, s=grid)
    waves = [torch.fft.fftfreq(grid[0])[:, None], torch.fft.rfftfreq(grid[1])[None, :]]
    slopes = torch.stack([-2j * math.pi * wave.to(reference) * spectrum for wave in waves])  # (axis, channel, …)

    def moved(spectra: Tensor, by: Tensor) -> Tensor:
        return torch.fft.irfft2(spectra * shift_phases(by, grid).unsqueeze(1), s=grid)[..., :rows, :columns]

    start = shifts
    for _ in range(STEPS):
        left = (pictures - moved(spectrum, shifts)).flatten(1).unsqueeze(-1)
        along = torch.stack([moved(slope, shifts).flatten(1) for slope in slopes], dim=-1)
        gram = along.mT @ along
        weight = gram.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None].clamp(min=torch.finfo(gram.dtype).tiny)
        step = torch.linalg.solve(gram + 1e-6 * weight * torch.eye(2).to(gram), along.mT @ left)
        shifts = (shifts + step[..., 0].clamp(-0.5, 0.5)).clamp(start - 1, start + 1)
    return shifts, moved(spectrum, shifts)


def _phases(
    shift: Float[Tensor, "*batch"], side: int, frequencies: Float[Tensor, " frequency"]
) -> Complex[Tensor, "*batch frequency"]:
    """The phases of one axis. The whole pixels of a shift are reduced to at most half a turn before they are rounded.
    The highest frequency of an even side has no phase: it is multiplied by a cosine."""
    frequencies = frequencies.to(shift)
    whole = shift.detach().round().unsqueeze(-1)
    around = torch.remainder(frequencies * whole + side // 2, side) - side // 2
    angles = -2 * math.pi / side * (around + frequencies * (shift.unsqueeze(-1) - whole))
    return torch.complex(angles.cos(), angles.sin() * (2 * frequencies.abs() != side))
