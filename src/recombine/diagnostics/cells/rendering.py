"""How a model renders trained cells: in which contrast, and how blurred.

    how = render_like(rows, truth, found, trained, shape)
    how(images)                     # true images as the model would render them, without their mean

The truth t becomes μ + g·(t − mean trained truth), where μ is the mean trained output and g the median contrast of
trained outputs. If that leaves more than 1 % of the truth's variance, and outputs are images, each spatial frequency
gets a gain of its own, fitted to trained cells: a blur is such a change. What a model does to every cell says nothing
about what it does to unseen ones.
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
        transfer: The gain of each spatial frequency of an image; None where g alone is used.
        shape: The shape of one output.
        mean: The truth's mean over trained cells.
        error: Squared error over the truth's variance, both summed over trained cells.
        median_error: Median over trained cells of the squared error, over the truth's mean variance.
        contrast_error: The same as `error` after the truth was brought to the model's contrast and mean.
        rendered_error: The same after rendering, over the variance of the rendered truth.
        residual: Median squared distance of trained outputs from the rendered truth: what a right output of this model
            leaves unexplained.
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
        rows, columns = self.transfer.shape
        down = torch.fft.fftfreq(rows).abs()[:, None].expand(rows, columns)
        across = (torch.arange(columns) / self.shape[-1])[None].expand(rows, columns)
        high = torch.maximum(down, across) > 0.25
        gains = self.transfer.real
        return float(gains[high].mean() / gains[~high].mean().clamp_min(1e-12))


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
    """The gain of each spatial frequency, for all channels, that brings the truth closest to trained outputs."""
    cross, power = None, None
    for _, right, output in _blocks(rows, truth, found, mean, trained):
        wanted, given = (torch.fft.rfft2(x.reshape(-1, *shape[-2:])) for x in (output, right))
        now = (given.conj() * wanted).sum(0), given.abs().square().sum(0)
        cross, power = now if cross is None or power is None else (cross + now[0], power + now[1])
    assert cross is not None
    assert power is not None
    return cross / (power + DAMPED * power.mean()).clamp_min(1e-300)


def _filtered(images: Float[Tensor, "cell number"], transfer: Tensor, shape: tuple[int, ...]) -> Tensor:
    spectra = torch.fft.rfft2(images.reshape(len(images), *shape)) * transfer
    return torch.fft.irfft2(spectra, s=shape[-2:]).reshape(len(images), -1)
