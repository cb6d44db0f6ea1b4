"""Numbers that describe how much of the held-out cells training covers. Arguments are masks over the grid."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.core.factors import FactorSpace

Mask = Bool[np.ndarray, "..."]
LIT = 0.05  # how far a pixel must differ from the background to count as lit
BACKGROUND = 512  # images whose median is the background
NUMBERS = 2**22  # in a block of images


def covered_order(trained: Mask, held: Mask) -> int:
    """The largest k for which every k values that occur together in a held-out cell do so in a trained one."""
    for order in range(1, trained.ndim + 1):
        for axes in itertools.combinations(range(trained.ndim), order):
            others = tuple(axis for axis in range(trained.ndim) if axis not in axes)
            if (held.any(axis=others) & ~trained.any(axis=others)).any():
                return order - 1
    return trained.ndim


def levels(trained: Mask) -> Int[np.ndarray, "..."]:
    """In how many factors each cell differs from its nearest trained cell: 0 for trained cells; −1 without any."""
    found = np.where(trained, 0, -1)
    reached = trained
    for level in range(1, trained.ndim + 1):
        lines = [np.broadcast_to(reached.any(axis=axis, keepdims=True), trained.shape) for axis in range(trained.ndim)]
        reached = np.logical_or.reduce(lines)
        found[reached & (found < 0)] = level
    return found


class Components:
    """Sets of nodes that grow together (union–find)."""

    def __init__(self, size: int) -> None:
        self.parent = list(range(size))

    def root(self, node: int) -> int:
        while self.parent[node] != node:
            self.parent[node] = node = self.parent[self.parent[node]]
        return node

    def join(self, nodes: list[int]) -> int:
        """Merge nodes into one set and return by how much the number of sets decreases."""
        roots = {self.root(node) for node in nodes}
        first = roots.pop()
        for root in roots:
            self.parent[root] = first
        return len(roots)


def components(trained: Mask, available: Mask) -> int:
    """The number of connected components of all factor values, where a trained cell connects the values it combines."""
    starts = np.cumsum([0, *trained.shape])
    nodes = Components(int(starts[-1]))
    for axis in range(1, trained.ndim):  # a cell joins all its values once each is joined to that of the first factor
        others = tuple(a for a in range(1, trained.ndim) if a != axis)
        for first, other in np.argwhere(trained.any(axis=others)):
            nodes.join([int(first), int(starts[axis] + other)])
    roots = set()
    for axis, start in enumerate(starts[:-1]):
        others = tuple(a for a in range(trained.ndim) if a != axis)
        roots |= {nodes.root(int(start + value)) for value in np.flatnonzero(available.any(axis=others))}
    return len(roots)


def pixel_coverage(
    scene: Callable[[Tensor], Tensor],
    space: FactorSpace,
    trained: Int[Tensor, " id"],
    held: Int[Tensor, " ood"],
    background: Float[Tensor, "..."] | float | None = None,
) -> float:
    """Share of the held-out images' energy that lies where some trained image is lit; see `Holdout.pixel_coverage`."""
    if background is None:
        spread = trained[torch.linspace(0, len(trained) - 1, min(BACKGROUND, len(trained))).round().long()]
        background = _images(scene, space, spread).median(0).values
    lit: Tensor | None = None
    for images in _blocks(scene, space, trained):
        here = ((images - background).abs() >= LIT).any(0)
        lit = here if lit is None else lit | here
    covered = total = 0.0
    for images in _blocks(scene, space, held):
        energy = (images - background).square().sum(0)
        covered += float(energy[lit].sum())
        total += float(energy.sum())
    return covered / total if total > 0 else float("nan")


def _images(scene: Callable[[Tensor], Tensor], space: FactorSpace, cells: Int[Tensor, " cell"]) -> Tensor:
    with torch.no_grad():
        return scene(space.values(cells)).double()


def _blocks(
    scene: Callable[[Tensor], Tensor], space: FactorSpace, cells: Int[Tensor, " cell"]
) -> Iterator[Float[Tensor, "cell ..."]]:
    size = _images(scene, space, cells[:1])[0].numel()
    for some in cells.split(max(1, NUMBERS // max(size, 1))):
        yield _images(scene, space, some)
