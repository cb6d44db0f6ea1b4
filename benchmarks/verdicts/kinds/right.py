"""Decoders that are right on unseen cells, perhaps with blemishes that trained cells show as well."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter

from benchmarks.verdicts.expected import Decoder, Unsuitable, same
from benchmarks.verdicts.grid import Grid
from benchmarks.verdicts.kinds.kind import Kind

COMPOSES = frozenset({"composes"})


def right(grid: Grid, random: np.random.Generator) -> Decoder:
    """The truth."""
    return Decoder(grid.truth, COMPOSES, same(len(grid.unseen), "right"), gap=False)


def right_with_small_noise(grid: Grid, random: np.random.Generator) -> Decoder:
    """The truth, with a little noise on unseen cells only."""
    outputs = add_noise(grid, grid.truth, grid.unseen, random.uniform(0.01, 0.04), random)
    return Decoder(outputs, COMPOSES, same(len(grid.unseen), "right"), gap=False)


def right_with_faint_ghosts(grid: Grid, random: np.random.Generator) -> Decoder:
    """The truth and, on unseen cells, a faint copy of a trained image."""
    ghosts = grid.truth[random.choice(grid.trained, len(grid.unseen))] - grid.mean
    level = np.sqrt(random.uniform(0.005, 0.03) * grid.energy[grid.unseen] / (ghosts**2).sum(1))
    outputs = grid.with_unseen(grid.truth[grid.unseen] + level[:, None] * ghosts)
    return Decoder(outputs, COMPOSES, same(len(grid.unseen), "right"), gap=False)


def blurred_everywhere(grid: Grid, random: np.random.Generator) -> Decoder:
    """Every image blurred."""
    outputs = blur(grid, grid.truth, random.uniform(0.7, 2.5))
    if not 0.1 <= grid.error(outputs, grid.trained).mean() <= 0.38:
        raise Unsuitable
    return Decoder(outputs, COMPOSES, same(len(grid.unseen), "right"), gap=False)


def noisy_everywhere(grid: Grid, random: np.random.Generator) -> Decoder:
    """Noise on every image."""
    outputs = add_noise(grid, grid.truth, np.arange(len(grid.ood)), random.uniform(0.1, 0.38), random)
    return Decoder(outputs, COMPOSES, same(len(grid.unseen), "right"), gap=False)


def strength_everywhere(grid: Grid, random: np.random.Generator) -> Decoder:
    """Every image fainter or stronger around the mean image."""
    outputs = grid.mean + random.choice([0.5, 0.6, 0.75, 1.25, 1.4, 1.5]) * (grid.truth - grid.mean)
    return Decoder(outputs, COMPOSES, same(len(grid.unseen), "right"), gap=False)


def blur(grid: Grid, images: np.ndarray, sigma: float) -> np.ndarray:
    """Images (cell, number) blurred by a Gaussian of `sigma` pixels."""
    shaped = images.reshape(-1, *grid.image_shape)
    sigmas = [0.0] * (shaped.ndim - 2) + [sigma, sigma]
    return gaussian_filter(shaped, sigmas, mode="nearest").reshape(len(images), -1)


def add_noise(
    grid: Grid, images: np.ndarray, cells: np.ndarray, level: float, random: np.random.Generator
) -> np.ndarray:
    """Images with independent noise on some cells, its energy being `level` of the truth's mean energy."""
    noise = random.normal(size=(len(cells), images.shape[1]))
    noise *= np.sqrt(level * grid.energy.mean() / images.shape[1])
    noisy = images.copy()
    noisy[cells] += noise
    return noisy


KINDS = (
    Kind(right),
    Kind(right_with_small_noise),
    Kind(right_with_faint_ghosts),
    Kind(blurred_everywhere, nuisance=False),
    Kind(noisy_everywhere, nuisance=False),
    Kind(strength_everywhere, nuisance=False),
)
