"""Warps of images: resized and turned about the image's centre, then moved.

    warped(images, warps)                               # warps: log-scale, angle, rows, columns

An image is the cubic spline through its pixels, with zeros beyond the border, so that a warp by zeros changes nothing
and derivatives of both orders are continuous. A pixel of a smaller copy covers several pixels of the image. Its mean is
taken by Simpson's rule over half pixels, less what the pixels of the image are means of already.
Scales multiply and angles add up, so the warps of several factors are added.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

AT_ONCE = 64  # images, to save memory
NUMBERS = 4  # of a warp: log-scale, angle (radians, from rows to columns), rows, columns (pixels)


def warped(
    images: Float[Tensor, "image row column"], warps: Float[Tensor, "image number"]
) -> Float[Tensor, "image row column"]:
    """Each image resized by exp(log-scale), turned by the angle and moved."""
    if len(images) > AT_ONCE:
        return torch.cat([warped(*some) for some in zip(images.split(AT_ONCE), warps.split(AT_ONCE))])
    rows, columns = images.shape[-2:]
    at = _halves(warps, rows, columns)
    down, right = _splines(at[..., 0], rows), _splines(at[..., 1], columns)
    knots = F.pad(_knots(rows).to(images) @ images @ _knots(columns).to(images).mT, (1, 1, 1, 1))
    places = down[0].unsqueeze(-1) * (columns + 2) + right[0].unsqueeze(-2)
    near = knots.flatten(1).gather(1, places.flatten(1)).unflatten(1, places.shape[1:])
    fine = ((near * right[1].unsqueeze(-2)).sum(-1) * down[1]).sum(-1).unflatten(1, (2 * rows + 1, 2 * columns + 1))
    side = ((1 - (2 * warps[:, 0]).exp()).clamp(min=0) / 6)[:, None, None]
    fine = side * (fine[:, :-2:2] + fine[:, 2::2]) + (1 - 2 * side) * fine[:, 1::2]
    return side * (fine[..., :-2:2] + fine[..., 2::2]) + (1 - 2 * side) * fine[..., 1::2]


def _halves(warps: Float[Tensor, "image number"], rows: int, columns: int) -> Float[Tensor, "image place 2"]:
    """Where the half pixels of the warped images lie in the images, rows and columns from their centres."""
    r = torch.arange(2 * rows + 1).to(warps) / 2 - rows / 2
    c = torch.arange(2 * columns + 1).to(warps) / 2 - columns / 2
    down = r[:, None].expand(-1, len(c)).flatten() - warps[:, 2:3]
    right = c.repeat(len(r)) - warps[:, 3:4]
    cosine, sine = ((-warps[:, :1]).exp() * part for part in (warps[:, 1:2].cos(), warps[:, 1:2].sin()))
    return torch.stack([cosine * down + sine * right, cosine * right - sine * down], dim=-1)


def _splines(
    at: Float[Tensor, "image place"], side: int
) -> tuple[Int64[Tensor, "image place 4"], Float[Tensor, "image place 4"]]:
    """The four pixels of an axis, with a border of one pixel, that are nearest to places given from its centre, and
    their cubic B-splines there."""
    at = at + (side + 1) / 2
    nearest = at.detach().floor().unsqueeze(-1) + torch.arange(-1, 3).to(at)
    away = (at.unsqueeze(-1) - nearest).abs()
    inner, outer = (1 - away).clamp(min=0), 2 - away
    return nearest.clamp(0, side + 1).long(), (outer**3 - 4 * inner**3) / 6


def _knots(side: int) -> Float[Tensor, "pixel pixel"]:
    """The matrix that turns the pixels of an axis into coefficients of B-splines."""
    ones = torch.ones(side, dtype=torch.double)
    return (torch.diag(4 * ones) + torch.diag(ones[1:], 1) + torch.diag(ones[1:], -1)).inverse() * 6
