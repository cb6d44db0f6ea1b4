"""A factor grid with its true images and its hold-out: what a kind of decoder is made from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.verdicts.scenes import CYCLIC


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid.

    Attributes:
        names: Of the factors.
        sizes: Number of values of each.
        image_shape: Of one image.
        truth: The true images, (cell, number).
        ood: Which cells are held out, (cell,).
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    image_shape: tuple[int, ...]
    truth: np.ndarray
    ood: np.ndarray

    @cached_property
    def at(self) -> np.ndarray:
        """Positions, (cell, factor)."""
        return np.stack(np.unravel_index(np.arange(len(self.ood)), self.sizes), axis=1)

    @cached_property
    def unseen(self) -> np.ndarray:
        return np.flatnonzero(self.ood)

    @cached_property
    def trained(self) -> np.ndarray:
        return np.flatnonzero(~self.ood)

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean trained image."""
        return self.truth[self.trained].mean(0)

    @cached_property
    def energy(self) -> np.ndarray:
        """Squared distance of each true image from the mean image, (cell,)."""
        return ((self.truth - self.mean) ** 2).sum(1)

    @cached_property
    def steps(self) -> np.ndarray:
        """Grid steps between unseen and trained cells, factor by factor: (unseen, trained, factor)."""
        steps = np.abs(self.at[self.unseen][:, None] - self.at[self.trained][None])
        for axis, name in enumerate(self.names):
            if name in CYCLIC:
                steps[..., axis] = np.minimum(steps[..., axis], self.sizes[axis] - steps[..., axis])
        return steps

    @cached_property
    def shares(self) -> np.ndarray:
        """Which trained cells share at least one value with each unseen one, (unseen, trained)."""
        return (self.steps == 0).any(-1)

    @cached_property
    def distance(self) -> np.ndarray:
        """Steps over the number of values, summed over factors: (unseen, trained)."""
        return (self.steps / np.array(self.sizes)).sum(-1)

    def cells(self, positions: np.ndarray) -> np.ndarray:
        """Numbers of the cells at positions (…, factor)."""
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(positions, -1, 0)), self.sizes))

    def replaced(self, cells: np.ndarray, axis: int, values: np.ndarray) -> np.ndarray:
        """The cells with one factor set to other values."""
        positions = self.at[cells].copy()
        positions[:, axis] = values
        return self.cells(positions)

    def error(self, outputs: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """Squared distance of each output from the truth, relative to that of the mean image."""
        return ((outputs[cells] - self.truth[cells]) ** 2).sum(1) / self.energy[cells]

    def values_read(self, outputs: np.ndarray, cells: np.ndarray, axis: int) -> np.ndarray:
        """The value of one factor at which the truth, the other factors being right, is nearest to each output.

        Nearest up to strength: the output may be fainter or stronger. An independent, plain version of what the
        verdict does.
        """
        centred = outputs[cells] - self.mean
        scores = []
        for value in range(self.sizes[axis]):
            there = self.truth[self.replaced(cells, axis, np.full(len(cells), value))] - self.mean
            scores.append((centred * there).sum(1) / np.linalg.norm(there, axis=1))
        return np.argmax(scores, axis=0)

    def with_unseen(self, images: np.ndarray) -> np.ndarray:
        """The truth, with other images for the unseen cells."""
        outputs = self.truth.copy()
        outputs[self.unseen] = images
        return outputs
