"""How a model renders trained cells: its contrast and its blur.

    how = render_like(rows, truth, found, trained, shape)
    how(images)                     # true images as the model would render them, without their mean

The truth t becomes μ + g·(t − mean trained truth), where μ is the mean trained output and g the median contrast of
trained outputs. If that leaves more than 1 % of the truth's variance, and outputs are images, a blur is fitted as well:
coarse and fine detail have separate gains, the same in all directions, fitted to trained cells. Whatever a model does
to every cell says nothing about unseen cells. A filter with a preferred direction is not a blur: one that keeps only
what is constant along the rows or the columns turns a spot into the sum of two stripes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from recombine.diagnostics.cells.products import Products
from recombine.diagnostics.model.truth import Truth
from recombine.diagnostics.numerics.grids import cells_per_block

INEXACT = 0.01  # relative error on trained cells above which a blur is fitted
BETTER = 0.8  # largest residual with a blur, relative to the one without, to take it
DAMPED = 1e-3  # of the mean power: frequencies with less are not amplified
SMALLEST_IMAGE = 8  # pixels in a row


@dataclass(frozen=True, eq=False)
class Rendering:
    """How the model renders trained cells.

    Attributes:
        gain: g, the median contrast of trained outputs.
        transfer: The gain of each spatial frequency of an image, which depends only on its magnitude; None if only g is
            used.
        shape: The shape of one output.
        mean: The truth's mean over trained cells.
        error: Squared error over the truth's variance, both summed over trained cells.
        median_error: Median over trained cells of the squared error, over the truth's mean variance.
        contrast_error: The same as `error` after adjusting the truth to the model's contrast and mean.
        rendered_error: The same after rendering, over the variance of the rendered truth.
        residual: Median squared distance of trained outputs from the rendered truth: the residual of a right output of
            this model.
    """

    gain: float
    transfer: Tensor | None
    shape: tuple[int, ...]
    mean: Float[Tensor, " number"]
    error: float
    median_error: float
    contrast_error: float
    rendered_error: float
    residual: float

    def __call__(self, images: Shaped[Tensor, "cell number"]) -> Float[Tensor, "cell number"]:
        """True images as the model renders them, relative to its mean trained output."""
        centred = images.double() - self.mean
        return self.gain * centred if self.transfer is None else _filtered(centred, self.transfer, self.shape)

    @property
    def sharpness(self) -> float:
        """The mean gain of high over that of low spatial frequencies; 1 if nothing is blurred."""
        if self.transfer is None:
            return 1.0
        down, across = _frequencies(self.shape)
        high = torch.maximum(down, across) > 0.25
        return float(self.transfer[high].mean() / self.transfer[~high].mean().clamp_min(1e-12))


def render_like(
    rows: Shaped[Tensor, "grid number"],
    truth: Truth,
    found: Products,
    trained: Int[Tensor, " trained"],
    shape: tuple[int, ...],
) -> Rendering:
    """Fit contrast and blur to trained cells."""
    mean = truth.mean(trained)
    offset = found.mean - mean
    cross, own, error = (torch.empty(len(trained), dtype=torch.float64) for _ in range(3))
    for here, right, output in _blocks(rows, truth, found, mean, trained):
        cross[here], own[here] = (right * output).sum(1), right.square().sum(1)
        error[here] = (output - right + offset).square().sum(1)
    known = own > 1e-12 * own.max()
    gain = float((cross[known] / own[known]).median()) if bool(known.any()) else 0.0
    total = max(float(own.sum()), 1e-300)
    typical = float(error.median()) * len(trained) / total
    plain = Rendering(gain, None, shape, mean, float(error.sum()) / total, typical, np.inf, np.inf, 0.0)
    plain = _measured(plain, rows, truth, found, trained)
    plain = replace(plain, contrast_error=plain.rendered_error)
    if plain.rendered_error <= INEXACT or not _is_image(shape):
        return plain
    transfer = _transfer(rows, truth, found, mean, trained, shape)
    blurred = _measured(replace(plain, transfer=transfer), rows, truth, found, trained)
    return blurred if blurred.residual < BETTER * plain.residual else plain


def _blocks(rows: Tensor, truth: Truth, found: Products, mean: Tensor, trained: Tensor):
    """(where, centred truth, centred output) of some trained cells at a time."""
    step = cells_per_block(truth.size)
    for start in range(0, len(trained), step):
        some = trained[start : start + step]
        yield slice(start, start + len(some)), truth.rows(some).double() - mean, rows[some].double() - found.mean


def _measured(how: Rendering, rows: Tensor, truth: Truth, found: Products, trained: Tensor) -> Rendering:
    """The same with its errors."""
    left, own = (torch.empty(len(trained), dtype=torch.float64) for _ in range(2))
    for here, right, output in _blocks(rows, truth, found, how.mean, trained):
        rendered = how(right + how.mean)
        left[here], own[here] = (output - rendered).square().sum(1), rendered.square().sum(1)
    total = float(own.sum())
    error = float(left.sum()) / total if total > 0 else np.inf
    return replace(how, rendered_error=error, residual=float(left.median()))


def _is_image(shape: tuple[int, ...]) -> bool:
    return len(shape) in (2, 3) and min(shape[-2:]) >= SMALLEST_IMAGE


def _transfer(
    rows: Tensor, truth: Truth, found: Products, mean: Tensor, trained: Tensor, shape: tuple[int, ...]
) -> Tensor:
    """The gain of each spatial frequency that brings the truth closest to trained outputs.

    It is the same for all channels and for frequencies of the same magnitude (in steps of one period per image), so
    that it blurs equally in all directions.
    """
    down, across = _frequencies(shape)
    length = ((down.square() + across.square()).sqrt() * 2 * max(shape[-2:])).round().long()
    cross, power = (torch.zeros(length.shape, dtype=torch.float64) for _ in range(2))
    for _, right, output in _blocks(rows, truth, found, mean, trained):
        wanted, given = (_spectra(x, shape).reshape(-1, *shape[-2:]) for x in (output, right))
        cross += (given * wanted).sum(0)
        power += given.square().sum(0)
    count = int(length.max()) + 1
    rings = [
        torch.zeros(count, dtype=torch.float64).index_add_(0, length.flatten(), x.flatten()) for x in (cross, power)
    ]
    gains = rings[0] / (rings[1] + DAMPED * rings[1].mean()).clamp_min(1e-300)
    return gains[length]


def _frequencies(shape: tuple[int, ...]) -> tuple[Float[Tensor, "row column"], Float[Tensor, "row column"]]:
    """Periods per pixel down and across of each number of a spectrum."""
    down, across = (torch.arange(size, dtype=torch.float64) / (2 * size) for size in shape[-2:])
    return down[:, None].expand(shape[-2:]), across[None].expand(shape[-2:])


def _spectra(images: Float[Tensor, "cell number"], shape: tuple[int, ...]) -> Float[Tensor, "cell ..."]:
    """Cosine transforms. A symmetric blur multiplies them, if images are mirrored beyond their border."""
    from scipy.fft import dctn

    return torch.from_numpy(dctn(images.reshape(len(images), *shape).numpy(), axes=(-2, -1), norm="ortho"))


def _filtered(images: Float[Tensor, "cell number"], transfer: Tensor, shape: tuple[int, ...]) -> Tensor:
    from scipy.fft import idctn

    spectra = (_spectra(images, shape) * transfer).numpy()
    return torch.from_numpy(idctn(spectra, axes=(-2, -1), norm="ortho")).reshape(len(images), -1)
