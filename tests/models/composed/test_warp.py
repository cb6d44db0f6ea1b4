"""Warps of images: closed forms, derivatives, compositions."""

import math

import pytest
import torch

from recombine.models.composed.warp import warped

SIDE = 24


def gaussian(scale: float, angle: float, down: float, right: float, fine: int = 8) -> torch.Tensor:
    """An oblique Gaussian blob beside the centre, resized, turned and moved; pixels are means of fine ones."""
    at = (torch.arange(SIDE * fine, dtype=torch.double) + 0.5) / fine - SIDE / 2
    r, c = torch.meshgrid(at - down, at - right, indexing="ij")
    r, c = math.cos(angle) * r + math.sin(angle) * c, math.cos(angle) * c - math.sin(angle) * r
    image = torch.exp(-(((r / scale - 2) / 4) ** 2 + ((c / scale) / 2.5) ** 2) * 1.5)
    return image.reshape(SIDE, fine, SIDE, fine).mean((1, 3))


def test_nothing_happens_at_zero():
    torch.manual_seed(0)
    images = torch.randn(3, 9, 12, dtype=torch.double)
    torch.testing.assert_close(warped(images, torch.zeros(3, 4, dtype=torch.double)), images)


@pytest.mark.parametrize(
    "warp", [(0.0, 1.0, 0, 0), (-0.4, 0, 0, 0), (0, 0, 1.3, -2.0), (-0.5, -2.2, 0.4, 1.0)], ids=str
)
def test_a_gaussian_becomes_the_gaussian_that_is_drawn_anew(warp):
    found = warped(gaussian(1, 0, 0, 0).unsqueeze(0), torch.tensor([warp], dtype=torch.double))[0]
    torch.testing.assert_close(found, gaussian(math.exp(warp[0]), *warp[1:]), rtol=0, atol=6e-3)


def test_a_quarter_turn_and_a_whole_shift_move_the_pixels_of_any_image():
    torch.manual_seed(0)
    image = torch.nn.functional.pad(torch.randn(1, 5, 7, dtype=torch.double), (4, 4, 5, 5))
    found = warped(image, torch.tensor([[0, math.pi / 2, 2, -1]], dtype=torch.double))
    torch.testing.assert_close(found, image.rot90(1, (1, 2)).roll((2, -1), (1, 2)), rtol=0, atol=0.01)


def test_scales_multiply_and_angles_add_up():
    image = gaussian(1, 0, 0, 0).unsqueeze(0)
    one, two = torch.tensor([[[-0.2, 0.7, 0, 0]], [[-0.15, -1.5, 0, 0]]], dtype=torch.double)
    torch.testing.assert_close(warped(warped(image, one), two), warped(image, one + two), rtol=0, atol=6e-3)


def test_pixels_of_a_smaller_copy_are_means():
    """Stripes that are much finer than the pixels of the copy become grey."""
    image = torch.zeros(1, SIDE, SIDE, dtype=torch.double)
    image[0, :, ::2] = 1
    found = warped(image, torch.tensor([[math.log(0.4), 0, 0, 0]], dtype=torch.double))
    assert (found[0, 9:15, 9:15] - 0.5).abs().max() < 0.3


def test_derivatives_of_both_orders_are_right():
    torch.manual_seed(0)
    images = torch.randn(2, 4, 5, dtype=torch.double, requires_grad=True)
    warps = (0.3 * torch.randn(2, 4, dtype=torch.double) - 0.4).requires_grad_()
    assert torch.autograd.gradcheck(warped, (images, warps))
    assert torch.autograd.gradgradcheck(warped, (images[:1], warps[:1]))


def test_many_images_are_warped_in_parts():
    torch.manual_seed(0)
    images, warps = torch.randn(70, 4, 4), 0.3 * torch.randn(70, 4)
    torch.testing.assert_close(warped(images, warps)[-3:], warped(images[-3:], warps[-3:]))
