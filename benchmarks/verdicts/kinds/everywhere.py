"""Decoders that fail on trained cells as well: there is no gap between trained and unseen cells."""

from __future__ import annotations

import numpy as np

from benchmarks.verdicts.expected import Decoder, Unsuitable, same
from benchmarks.verdicts.grid import Grid
from benchmarks.verdicts.kinds.kind import Kind
from benchmarks.verdicts.kinds.right import add_noise

NOT_LEARNT = frozenset({"not learnt"})
ANY = ("right", "wrong strength", "sum", "copy", "mean", "blank", "wrong value", "other", "ambiguous")


def _everywhere(grid: Grid, outputs: np.ndarray, failing: frozenset[str] | None = None) -> Decoder:
    return Decoder(outputs, NOT_LEARNT, same(len(grid.unseen), *ANY), failing, gap=False)


def _ignored(grid: Grid, random: np.random.Generator) -> int:
    axes = [axis for axis, size in enumerate(grid.sizes) if size >= 3]
    return int(random.choice(axes))


def ignores_a_factor(grid: Grid, random: np.random.Generator) -> Decoder:
    """One factor has the same value in every output, trained or not."""
    axis = _ignored(grid, random)
    everywhere = np.arange(len(grid.ood))
    shown = grid.replaced(everywhere, axis, np.full(len(everywhere), random.integers(grid.sizes[axis])))
    return _everywhere(grid, grid.truth[shown], frozenset({grid.names[axis]}))


def averages_a_factor(grid: Grid, random: np.random.Generator) -> Decoder:
    """Every output is the mean of the true images over the values of one factor."""
    axis = _ignored(grid, random)
    means = grid.truth.reshape(*grid.sizes, -1).mean(axis, keepdims=True)
    outputs = np.broadcast_to(means, (*grid.sizes, grid.truth.shape[1])).reshape(len(grid.ood), -1).copy()
    read = grid.values_read(outputs, grid.trained, axis)
    clearly = float(np.mean(read == grid.at[grid.trained, axis])) < 0.4
    return _everywhere(grid, outputs, frozenset({grid.names[axis]}) if clearly else None)


def untrained(grid: Grid, random: np.random.Generator) -> Decoder:
    """A random network of two layers over one-hot codes."""
    codes = np.concatenate([np.eye(size)[grid.at[:, axis]] for axis, size in enumerate(grid.sizes)], axis=1)
    hidden = np.tanh(codes @ random.normal(size=(codes.shape[1], 48)) / np.sqrt(len(grid.sizes)))
    outputs = hidden @ random.normal(size=(48, grid.truth.shape[1])) / np.sqrt(48)
    level = random.choice([0.1, 1.0]) * np.sqrt(grid.energy.mean() / grid.truth.shape[1])
    return _everywhere(grid, level * outputs + random.choice([0.0, 0.5]))


def trained_too_briefly(grid: Grid, random: np.random.Generator) -> Decoder:
    """Gradient descent from zero on a kernel of shared values, stopped at an error of 0.65 to 0.9 on trained cells."""
    together = (grid.at[:, None] == grid.at[None]).mean(-1)
    kernel = together + 0.5 * (together == 1)
    values, vectors = np.linalg.eigh(kernel[np.ix_(grid.trained, grid.trained)])
    wanted = vectors.T @ (grid.truth[grid.trained] - grid.mean)
    error = random.uniform(0.65, 0.9)
    times = np.geomspace(1e-4, 1e6, 200)
    remaining = np.exp(-np.clip(values, 0, None) * times[:, None])
    left = (remaining**2 @ (wanted**2).sum(1)) / (wanted**2).sum()
    done = 1 - remaining[int(np.argmax(left < error))]
    weights = vectors @ ((done / np.maximum(values, 1e-9))[:, None] * wanted)
    outputs = grid.mean + kernel[:, grid.trained] @ weights
    if grid.error(outputs, grid.trained).mean() < 0.62:
        raise Unsuitable
    return _everywhere(grid, outputs)


def barely_trained(grid: Grid, random: np.random.Generator) -> Decoder:
    """The mean image with a trace of the right one, everywhere."""
    level = random.uniform(0.02, 0.18)
    outputs = add_noise(grid, grid.mean + level * (grid.truth - grid.mean), np.arange(len(grid.ood)), 0.02, random)
    return _everywhere(grid, outputs)


def noise_everywhere(grid: Grid, random: np.random.Generator) -> Decoder:
    """Noise of one and a half to three times the truth's energy on every image."""
    return _everywhere(grid, add_noise(grid, grid.truth, np.arange(len(grid.ood)), random.uniform(1.5, 3), random))


def sums_everywhere(grid: Grid, random: np.random.Generator) -> Decoder:
    """Every cell, trained or not, is answered by the mean of the trained images that share a value."""
    shares = (grid.at[:, None] == grid.at[grid.trained][None]).any(-1)
    outputs = shares @ grid.truth[grid.trained] / shares.sum(1, keepdims=True)
    if grid.error(outputs, grid.trained).mean() < 0.62:
        raise Unsuitable
    return _everywhere(grid, outputs)


def wrong_as_often_on_trained(grid: Grid, random: np.random.Generator) -> Decoder:
    """Right on the same share of trained and unseen cells, the truth of another cell elsewhere."""
    share = random.uniform(0.72, 0.85)
    outputs, classes = grid.truth.copy(), list(same(len(grid.unseen), "right"))
    for cells in (grid.trained, grid.unseen):
        wrong = random.choice(len(cells), round((1 - share) * len(cells)), replace=False)
        outputs[cells[wrong]] = grid.truth[random.choice(len(grid.ood), len(wrong))]
        if cells is grid.unseen:
            for row in wrong:
                classes[row] = frozenset({"copy", "wrong value", "other"})
    return Decoder(outputs, frozenset({"composes", "partly composes"}), classes, None, gap=False)


KINDS = (
    Kind(ignores_a_factor),
    Kind(averages_a_factor),
    Kind(untrained),
    Kind(trained_too_briefly),
    Kind(barely_trained),
    Kind(noise_everywhere, nuisance=False),
    Kind(sums_everywhere),
    Kind(wrong_as_often_on_trained),
)
