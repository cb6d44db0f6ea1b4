"""Decoders that draw unseen cells with wrong values of some factors, or something else altogether."""

from __future__ import annotations

import numpy as np

from benchmarks.verdicts.expected import Decoder, Unsuitable, same, verdict_of_replaced
from benchmarks.verdicts.grid import Grid
from benchmarks.verdicts.kinds.kind import Kind

FAILS = frozenset({"fails otherwise"})


def _replaced(grid: Grid, shown: np.ndarray, failing: frozenset[str] | None) -> Decoder:
    """Each unseen cell is answered by the truth of another cell."""
    seen = ~grid.ood[shown]
    differ = (grid.at[shown] != grid.at[grid.unseen]).sum(1)
    classes = []
    for is_seen, count in zip(seen, differ, strict=True):
        wrong = {"wrong value"} if count == 1 else {"other"}
        classes.append(frozenset({"right"} if count == 0 else wrong | {"copy"} if is_seen else wrong))
    return Decoder(grid.with_unseen(grid.truth[shown]), verdict_of_replaced(seen), classes, failing)


def _axis(grid: Grid, random: np.random.Generator, least: int = 2) -> int:
    axes = [axis for axis, size in enumerate(grid.sizes) if size >= least]
    if not axes:
        raise Unsuitable
    return int(random.choice(axes))


def _other_values(grid: Grid, cells: np.ndarray, axis: int, random: np.random.Generator) -> np.ndarray:
    """A wrong value for each cell, one that makes an unseen combination where there is one."""
    chosen = []
    for cell in cells:
        values = np.delete(np.arange(grid.sizes[axis]), grid.at[cell, axis])
        unseen = grid.ood[grid.replaced(np.full(len(values), cell), axis, values)]
        chosen.append(random.choice(values[unseen] if unseen.any() else values))
    return np.array(chosen)


def wrong_value(grid: Grid, random: np.random.Generator) -> Decoder:
    """One factor has a wrong value, all others are right."""
    axis = _axis(grid, random)
    shown = grid.replaced(grid.unseen, axis, _other_values(grid, grid.unseen, axis, random))
    return _replaced(grid, shown, frozenset({grid.names[axis]}))


def shifted(grid: Grid, random: np.random.Generator) -> Decoder:
    """One factor is off by one or two steps, always in the same direction where the grid allows it."""
    axis = _axis(grid, random, least=4)
    step, size = int(random.choice([-2, -1, 1, 2])), grid.sizes[axis]
    values = grid.at[grid.unseen, axis] + step
    values = np.where((values < 0) | (values >= size), values - 2 * step, values)
    return _replaced(grid, grid.replaced(grid.unseen, axis, values), frozenset({grid.names[axis]}))


def one_value_for_all(grid: Grid, random: np.random.Generator) -> Decoder:
    """One factor always has the same value; unseen cells that have it are right."""
    axis = _axis(grid, random)
    value = random.choice(np.unique(grid.at[grid.unseen, axis]))
    shown = grid.replaced(grid.unseen, axis, np.full(len(grid.unseen), value))
    made = _replaced(grid, shown, frozenset({grid.names[axis]}))
    is_right = shown == grid.unseen
    if is_right.mean() > 0.4:
        raise Unsuitable
    failure = verdict_of_replaced(~grid.ood[shown[~is_right]])
    if is_right.mean() > 0.125:
        return Decoder(made.outputs, frozenset({"partly composes"}), made.classes, made.failing)
    return Decoder(made.outputs, failure | {"partly composes"}, made.classes, made.failing)


def two_wrong_values(grid: Grid, random: np.random.Generator) -> Decoder:
    """Two factors have wrong values."""
    first, second = random.choice(len(grid.sizes), 2, replace=False)
    shown = grid.replaced(grid.unseen, first, _other_values(grid, grid.unseen, first, random))
    shown = grid.replaced(shown, second, _other_values(grid, shown, second, random))
    return _replaced(grid, shown, frozenset({grid.names[first], grid.names[second]}))


def permuted(grid: Grid, random: np.random.Generator) -> Decoder:
    """Unseen cells are answered by the truth of other unseen cells."""
    order = np.roll(random.permutation(len(grid.unseen)), 1)
    shown = np.empty_like(grid.unseen)
    shown[np.roll(order, 1)] = grid.unseen[order]
    return _replaced(grid, shown, None)


def noise_images(grid: Grid, random: np.random.Generator) -> Decoder:
    """Noise in place of an image, as strong as an image."""
    images = random.normal(size=(len(grid.unseen), grid.truth.shape[1]))
    images *= np.sqrt(grid.energy.mean() / images.shape[1]) * random.uniform(0.8, 1.5)
    return Decoder(grid.with_unseen(grid.mean + images), FAILS, same(len(grid.unseen), "other"), None)


def scrambled(grid: Grid, random: np.random.Generator) -> Decoder:
    """The right pixels in a wrong order, the same for all unseen cells."""
    order = random.permutation(grid.truth.shape[1])
    images = grid.truth[grid.unseen][:, order]
    return Decoder(grid.with_unseen(images), FAILS, same(len(grid.unseen), "other"), None)


KINDS = tuple(
    Kind(make)
    for make in (wrong_value, shifted, one_value_for_all, two_wrong_values, permuted, noise_images, scrambled)
)
