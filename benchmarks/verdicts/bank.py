"""The cases of the bank, made from their settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.verdicts.expected import FEW_NEAR, NEAR, Decoder, Unsuitable
from benchmarks.verdicts.grid import Grid
from benchmarks.verdicts.kinds import KINDS
from benchmarks.verdicts.kinds.right import add_noise, blur
from benchmarks.verdicts.settings import Half, Settings, draw_nuisance, draw_scene, draw_split, settings

ATTEMPTS = 300
LEAST_UNSEEN, MOST_UNSEEN = 10, 150
TELLING = 0.15  # how far apart true images must be that differ in one factor, relative to their distance from the mean


@dataclass(frozen=True, eq=False)
class Case:
    """A decoder of the bank.

    Attributes:
        settings: What it was drawn from.
        grid: The factor grid with its true images and hold-out.
        decoder: Its outputs and what is expected of the verdict.
        split: Name of the hold-out.
        nuisance: What was done to all outputs.
    """

    settings: Settings
    grid: Grid
    decoder: Decoder
    split: str
    nuisance: dict[str, float]


def cases(half: Half, **options: int) -> Iterator[Case]:
    """All cases of one half. Combinations of a kind and a scene that do not exist are left out."""
    for chosen in settings(half, **options):
        made = make(chosen)
        if made is not None:
            yield made


def make(chosen: Settings) -> Case | None:
    """The case of some settings: what is unsuitable is drawn again. None if nothing suitable is found."""
    for attempt in range(ATTEMPTS):
        random = np.random.default_rng((*chosen.seed, attempt))
        try:
            return _attempt(chosen, random)
        except Unsuitable:
            continue
    return None


def _attempt(chosen: Settings, random: np.random.Generator) -> Case:
    scene = draw_scene(chosen.n_factors, chosen.colour, random)
    split, ood = draw_split(chosen.kind, scene, random)
    _check_split(scene.sizes, ood, few=split == "three_cells")
    images = scene.images().reshape(len(ood), -1)
    grid = Grid(tuple(scene.factors), scene.sizes, scene.image_shape, images, ood)
    _check_scene(grid)
    decoder = KINDS[chosen.kind].make(grid, random)
    nuisance = draw_nuisance(chosen.kind, random)
    outputs = decoder.outputs
    if nuisance["blur"] > 0:
        outputs = blur(grid, outputs, nuisance["blur"])
    if nuisance["strength"] != 1:
        outputs = grid.mean + nuisance["strength"] * (outputs - grid.mean)
    if nuisance["noise"] > 0:
        outputs = add_noise(grid, outputs, np.arange(len(ood)), nuisance["noise"], random)
    decoder = _drowned_sums_accepted(grid, decoder, nuisance["noise"])
    return Case(chosen, grid, _near_cells_accepted(grid, replace(decoder, outputs=outputs)), split, nuisance)


def _check_split(sizes: tuple[int, ...], ood: np.ndarray, *, few: bool) -> None:
    """Every single value is trained on, and there are enough cells of both sorts."""
    held = ood.reshape(sizes)
    for axis in range(len(sizes)):
        if held.all(axis=tuple(a for a in range(len(sizes)) if a != axis)).any():
            raise Unsuitable
    if not few and not (LEAST_UNSEEN <= ood.sum() <= MOST_UNSEEN and ood.mean() <= 0.45):
        raise Unsuitable


def _check_scene(grid: Grid) -> None:
    """Images that differ in one factor can be told apart."""
    everywhere = np.arange(len(grid.ood))
    for axis, size in enumerate(grid.sizes):
        for step in range(1, size):
            other = grid.replaced(everywhere, axis, (grid.at[:, axis] + step) % size)
            apart = ((grid.truth[other] - grid.truth) ** 2).sum(1) / np.maximum(grid.energy, 1e-12)
            if apart.min() < TELLING:
                raise Unsuitable


def _near_cells_accepted(grid: Grid, decoder: Decoder) -> Decoder:
    """Wrong outputs that are near the truth may be called right; drawn again if there are many such."""
    near = grid.error(decoder.outputs, grid.unseen) < NEAR
    wrong = np.array(["right" not in accepted for accepted in decoder.classes])
    if (near & wrong).mean() > FEW_NEAR:
        raise Unsuitable
    classes = [
        accepted | {"right", "ambiguous"} if here else accepted
        for here, accepted in zip(near & wrong, decoder.classes, strict=True)
    ]
    return replace(decoder, classes=classes)


def _drowned_sums_accepted(grid: Grid, decoder: Decoder, noise: float) -> Decoder:
    """Sums whose distance from the mean of all trained images is below twice the noise may be called that mean."""
    away = ((decoder.outputs[grid.unseen] - grid.mean) ** 2).sum(1)
    drowned = (away < 2 * noise * grid.energy.mean()) & np.array(["sum" in accepted for accepted in decoder.classes])
    if not drowned.any():
        return decoder
    classes = [
        accepted | {"mean", "blank", "ambiguous"} if here else accepted
        for here, accepted in zip(drowned, decoder.classes, strict=True)
    ]
    verdicts = decoder.verdicts
    if "superposes" in verdicts and drowned.mean() >= 0.3:
        verdicts = verdicts | {"collapses"}
    return replace(decoder, classes=classes, verdicts=verdicts)
