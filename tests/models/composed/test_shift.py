"""Shifts by fractions of a pixel: closed forms, derivatives, and shifts that are found again."""

import math

import pytest
import torch

from recombine.models.composed.shift import refined_shifts, shift_phases

SIDE = 12


def waves(shift: torch.Tensor, rows: int = SIDE, columns: int = SIDE) -> torch.Tensor:
    """A band-limited periodic image, drawn anew at its shifted place."""
    r, c = torch.meshgrid(torch.arange(rows).to(shift), torch.arange(columns).to(shift), indexing="ij")
    r, c = 2 * math.pi * (r - shift[0]) / rows, 2 * math.pi * (c - shift[1]) / columns
    return 0.3 + torch.cos(2 * r - 3 * c + 0.3) + 0.5 * torch.sin(5 * r + c) + torch.cos(r + 0.1) * torch.sin(4 * c)


def moved(image: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    grid = (image.shape[0], image.shape[1])
    return torch.fft.irfft2(torch.fft.rfft2(image) * shift_phases(shift, grid), s=grid)


@pytest.mark.parametrize("columns", [12, 13])
def test_a_band_limited_image_moves_exactly(columns):
    shift = torch.tensor([1.37, -2.61], dtype=torch.double)
    image = waves(torch.zeros(2, dtype=torch.double), columns=columns)
    torch.testing.assert_close(moved(image, shift), waves(shift, columns=columns), rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", [(6, 8), (7, 9), (36, 36)], ids=str)
def test_whole_shifts_move_the_pixels_of_any_image(shape):
    torch.manual_seed(0)
    image = torch.randn(shape)
    found = moved(image, torch.tensor([3.0, -2.0]))
    assert (found - image.roll((3, -2), (0, 1))).square().mean() < 1e-13, "the rounding of float32"


def test_the_highest_frequency_of_an_even_side_is_only_damped():
    """Alternating rows could have moved up or down. Their shift is the mean of both, whatever the columns do."""
    alternating = torch.tensor([1.0, -1.0], dtype=torch.double).repeat(3)[:, None]
    image = alternating * torch.cos(2 * math.pi * torch.arange(8, dtype=torch.double) / 8)
    found = moved(image, torch.tensor([0.3, 0.0], dtype=torch.double))
    torch.testing.assert_close(found, math.cos(0.3 * math.pi) * image)


def test_derivatives_of_both_orders_are_right():
    image = waves(torch.zeros(2, dtype=torch.double), 6, 7)
    shift = torch.tensor([[0.4, -1.7], [2.0, 0.0]], dtype=torch.double, requires_grad=True)

    def both(given: torch.Tensor) -> torch.Tensor:
        return torch.stack([moved(image, own) for own in given])

    assert torch.autograd.gradcheck(both, (shift,))
    assert torch.autograd.gradgradcheck(both, (shift,))


def blob(row: float, column: float) -> torch.Tensor:
    at = torch.arange(24, dtype=torch.double)
    return torch.exp(-((at[:, None] - row).square() + (at[None, :] - column).square()) / 6)


def test_shifts_are_found_to_a_fraction_of_a_pixel():
    truth = torch.tensor([[0.3, -2.45], [0.0, 1.5], [-0.77, 0.0]], dtype=torch.double)
    pictures = torch.stack([blob(12 + float(r), 11 + float(c)) for r, c in truth]).unsqueeze(1)
    found, images = refined_shifts(pictures, blob(12, 11).unsqueeze(0), truth.round())
    torch.testing.assert_close(found, truth, rtol=0, atol=1e-4)
    torch.testing.assert_close(images, pictures, rtol=0, atol=1e-3)
