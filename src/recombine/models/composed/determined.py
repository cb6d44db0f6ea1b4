"""Checks whether training determines the outputs of a composed decoder for held-out combinations.

On the Fourier grid a term is a product of one number per factor value, so its logarithm is a sum of one number per
factor value. A held-out combination is determined if its indicator vector (ones at its values, over the values of all
factors) is a linear combination of those of the trained ones. With two factors this means that its two values are
connected in the bipartite graph of trained pairs. docs/composing.md explains the argument and its limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float

TOLERANCE = 1e-7


@dataclass(frozen=True)
class Determination:
    """The held-out combinations that training determines.

    Attributes:
        undetermined: True for held-out cells that training does not determine, in the space's shape.
        groups: For each factor its values (positions) in groups. The operators of values in one group are determined
            relative to each other; those of different groups are not.
    """

    undetermined: Bool[np.ndarray, "..."]
    groups: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def complete(self) -> bool:
        return not self.undetermined.any()

    def told(self, names: Sequence[str], labels: Sequence[Sequence[str]]) -> str:
        """The groups as text, `shape {0, 1} | {2, 3}, x {0} | {1}`; only factors with several groups."""
        parts = []
        for name, own, groups in zip(names, labels, self.groups):
            if len(groups) > 1:
                parts.append(f"{name} " + " | ".join(f"{{{_listed([own[v] for v in group])}}}" for group in groups))
        return ", ".join(parts)


def determination(
    trained: Bool[np.ndarray, "..."],
    held: Bool[np.ndarray, "..."],
    between: Sequence[Float[np.ndarray, "_value _value"]] | None = None,
) -> Determination:
    """Which held-out cells are determined by trained ones.

    Args:
        trained, held: Masks in the space's shape.
        between: For each factor the weights of the values that stand for each value (see
            `recombine.models.composed.codes`). By default every value stands for itself.
    """
    null = _unseen_directions(trained)
    starts = np.cumsum([0, *trained.shape])
    own = [null[a:b] for a, b in pairwise(starts)]  # of each factor: (value, direction)
    if between is not None:
        own = [stand @ vectors for stand, vectors in zip(between, own)]
    far = np.zeros(trained.shape, dtype=bool)
    for direction in range(null.shape[1]):
        total = np.zeros(trained.shape)
        for axis, vectors in enumerate(own):
            shape = [-1 if a == axis else 1 for a in range(trained.ndim)]
            total = total + vectors[:, direction].reshape(shape)
        far |= abs(total) > TOLERANCE
    return Determination(far & held, tuple(_groups(vectors) for vectors in own))


def _unseen_directions(trained: Bool[np.ndarray, "..."]) -> Float[np.ndarray, "value direction"]:
    """An orthonormal basis of the changes to the numbers of all values that leave every trained cell unchanged."""
    sizes, ndim = trained.shape, trained.ndim
    counts = trained.astype(np.int64)
    starts = np.cumsum([0, *sizes])
    gram = np.zeros((starts[-1], starts[-1]))
    for i in range(ndim):
        for j in range(i, ndim):
            others = tuple(a for a in range(ndim) if a not in (i, j))
            pairs = counts.sum(axis=others)
            block = np.diag(pairs) if i == j else pairs
            gram[starts[i] : starts[i + 1], starts[j] : starts[j + 1]] = block
            gram[starts[j] : starts[j + 1], starts[i] : starts[i + 1]] = block.T
    values, vectors = np.linalg.eigh(gram)
    return vectors[:, values <= TOLERANCE * max(values[-1], 1.0)]


def _groups(vectors: Float[np.ndarray, "value direction"]) -> tuple[tuple[int, ...], ...]:
    """Values whose numbers can only change together."""
    groups: list[list[int]] = []
    for value, row in enumerate(vectors):
        same = (group for group in groups if np.abs(vectors[group[0]] - row).max(initial=0.0) <= TOLERANCE)
        group = next(same, None)
        if group is None:
            groups.append([value])
        else:
            group.append(value)
    return tuple(map(tuple, groups))


def _listed(labels: Sequence[str], most: int = 8) -> str:
    return ", ".join(labels) if len(labels) <= most else f"{', '.join(labels[: most - 1])}, … ({len(labels)} values)"
