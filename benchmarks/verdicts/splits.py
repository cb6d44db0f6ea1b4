"""Hold-outs of the bank, as arrays over the grid: True where a combination is never trained on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Split = Callable[[tuple[int, ...], np.random.Generator], np.ndarray]


def _positions(sizes: tuple[int, ...]) -> np.ndarray:
    return np.stack(np.meshgrid(*(np.arange(n) for n in sizes), indexing="ij"))


def _pair(sizes: tuple[int, ...], random: np.random.Generator) -> list[int]:
    """Two factors, in order."""
    return sorted(random.choice(len(sizes), 2, replace=False).tolist())


def centre(sizes: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """A box in the middle of two factors, for all values of the others."""
    at, share = _positions(sizes), random.uniform(0.35, 0.6)
    held = np.ones(sizes, dtype=bool)
    for axis in _pair(sizes, random):
        width = max(2, round(share * sizes[axis]))
        start = (sizes[axis] - width) // 2
        held &= (at[axis] >= start) & (at[axis] < start + width)
    return held


def corner(sizes: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """The upper ends of two factors, for all values of the others: those pairs are never seen together."""
    at, share = _positions(sizes), random.uniform(0.35, 0.6)
    held = np.ones(sizes, dtype=bool)
    for axis in _pair(sizes, random):
        held &= at[axis] >= sizes[axis] - max(2, round(share * sizes[axis]))
    return held


def block(sizes: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """The upper ends of all factors: with three factors and more, every pair of values is still seen."""
    at, held = _positions(sizes), np.ones(sizes, dtype=bool)
    for axis, size in enumerate(sizes):
        held &= at[axis] >= size - max(2, round(random.uniform(0.5, 0.7) * size))
    return held


def cross(sizes: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Two bars through the middle of two factors that stop before the border."""
    at = _positions(sizes)
    first, second = _pair(sizes, random)
    bars = [np.abs(at[axis] - sizes[axis] // 2) <= sizes[axis] // 8 for axis in (first, second)]
    inner = [(at[axis] > 0) & (at[axis] < sizes[axis] - 1) for axis in (first, second)]
    return (bars[0] | bars[1]) & inner[0] & inner[1]


def diagonal(sizes: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Every k-th diagonal of two factors."""
    at, spacing = _positions(sizes), int(random.integers(3, 5))
    first, second = _pair(sizes, random)
    return (at[first] + at[second]) % spacing == 0


def scattered(sizes: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Single cells at random."""
    return random.random(sizes) < random.uniform(0.15, 0.35)


def three_cells(sizes: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Three cells at random: too few for a verdict."""
    held = np.zeros(sizes, dtype=bool)
    held.flat[random.choice(held.size, 3, replace=False)] = True
    return held


SPLITS: dict[str, Split] = {f.__name__: f for f in (centre, corner, block, cross, diagonal, scattered, three_cells)}
