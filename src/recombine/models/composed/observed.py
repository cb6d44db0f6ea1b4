"""Which factors resize or turn what others draw, determined from images.

    warps = observed_warps(images, values, factor=0)        # values: of every factor, for each image

Operators that were trained do not show it, because no kernel resizes. Images do: among images that differ only in one
factor, one resizing and one angle per value must explain the change, whatever the other factors are. The images must
show one object on a known ground. Its size is the spread of its energy, of which a factor that resizes adds its
logarithm to that of the others. Angles are those that bring the images closest to each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from recombine.models.composed.warp import warped

COARSE = 36  # angles of a full turn that are tried
FINER = (0.5, 0.1)  # of a coarse step
CONTEXTS = 16  # in which a value is compared with others, at most
MOST = 4  # of these, from which an angle is found
STILL = 1e-3  # share of the change that is left once objects are centred, below which they only move
PIXEL = 1 / 6  # spread of a single pixel
EMPTY = 1e-6  # share of the largest energy of an image below which it shows no object


@dataclass(frozen=True)
class Objects:
    """Images of one object each, without the ground.

    Attributes:
        images: The images.
        values: Of every factor, for each image.
        places: The centres of the objects (rows, columns), from the image's centre.
        sizes: The logarithms of their sizes.
    """

    images: Float[Tensor, "image channel row column"]
    values: Int64[Tensor, "image factor"]
    places: Float[Tensor, "image 2"]
    sizes: Float[Tensor, " image"]


@dataclass(frozen=True)
class Observed:
    """What a factor does to objects.

    Attributes:
        moves: Share of the changes that one shift per value explains.
        resizes, turns, warps: Shares of what is left of them, if every object is centred, that resizing, turning and
            both together explain; 0 if this was not asked, because a simpler explanation suffices.
        scales, angles: For each value, the logarithm of its scale, at most 0, and its angle, if it resizes, turns or
            both. Zeros if unknown.
    """

    moves: float
    resizes: float = 0.0
    turns: float = 0.0
    warps: float = 0.0
    scales: Float[Tensor, " value"] = field(default_factory=lambda: torch.zeros(0))
    angles: Float[Tensor, " value"] = field(default_factory=lambda: torch.zeros(0))


def objects_of(images: Float[Tensor, "image channel row column"], values: Int64[Tensor, "image factor"]) -> Objects:
    """The objects that images without ground show; empty images are left out."""
    light = images.square().sum(1)
    total = light.sum((1, 2))
    shown = total > EMPTY * total.max()
    images, values, light, total = images[shown], values[shown], light[shown], total[shown]
    at = [torch.arange(side).to(light) - (side - 1) / 2 for side in light.shape[1:]]
    place = torch.stack([(light.sum(2) @ at[0]) / total, (light.sum(1) @ at[1]) / total], dim=1)
    away = [own - centre.unsqueeze(1) for own, centre in zip(at, place.unbind(1))]
    spread = ((light.sum(2) * away[0] ** 2).sum(1) + (light.sum(1) * away[1] ** 2).sum(1)) / total
    return Objects(images, values, place, 0.5 * spread.clamp(min=PIXEL).log())


def observed(objects: Objects, factor: int, size: int, enough: float) -> Observed:
    """What a factor with `size` values does, by the first explanation that accounts for `enough` of the changes."""
    context = _contexts(objects.values, factor)
    own = objects.values[:, factor]
    scales = _additive(objects.sizes.unsqueeze(1), own, context, size)[:, 0]
    scales = torch.where(torch.bincount(own, minlength=size) > 0, scales - scales[own].max(), torch.zeros_like(scales))
    none = torch.zeros_like(scales)
    pairs = _pairs(own, context, scales)
    if not len(pairs[0]):
        return Observed(0.0)
    source, target = pairs
    raw = float((objects.images[source] - objects.images[target]).square().sum())
    shifts = _additive(objects.places, own, context, size)
    linear = (none[own[target]], none[own[target]])
    moves = 1 - float(_errors(objects, pairs, *linear, shifts[own[target]] - shifts[own[source]]).sum()) / raw
    change = _error(objects, factor, pairs, none, none)
    found = Observed(moves)
    if change < STILL * raw:
        return found

    def explained(log: Tensor, turn: Tensor) -> float:
        return 1 - _error(objects, factor, pairs, log, turn) / change

    found = replace(found, resizes=explained(scales, none), scales=scales, angles=none)
    if found.resizes < enough:
        angles = _angles(objects, factor, pairs, none)
        found = replace(found, turns=explained(none, angles), scales=none, angles=angles)
    if max(found.resizes, found.turns) < enough:
        angles = _angles(objects, factor, pairs, scales)
        found = replace(found, warps=explained(scales, angles), scales=scales, angles=angles)
    return found


def _contexts(values: Int64[Tensor, "image factor"], factor: int) -> Int64[Tensor, " image"]:
    """For each image the number of the combination of the other factors."""
    others = [k for k in range(values.shape[1]) if k != factor]
    if not others:
        return torch.zeros_like(values[:, factor])
    return values[:, others].unique(dim=0, return_inverse=True)[1]


def _additive(
    given: Float[Tensor, "image number"], own: Tensor, context: Tensor, size: int
) -> Float[Tensor, "value number"]:
    """Numbers of values that, with numbers of contexts, add up to those of the images."""
    values, contexts = F.one_hot(own, size).to(given), F.one_hot(context).to(given)
    return torch.linalg.lstsq(torch.cat([values, contexts], dim=1), given, driver="gelsd").solution[:size]


def _pairs(own: Tensor, context: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of images in the same context: source and target. Values are placed one after the other, larger ones
    first. The source of a target is the image of the value that was placed first. Of many contexts, some are taken."""
    order, waiting = [], sorted(set(own.tolist()), key=lambda v: (-round(float(scales[v]), 3), v))
    contexts = {v: set(context[own == v].tolist()) for v in waiting}
    while waiting:
        known = set().union(*(contexts[v] for v in order)) if order else contexts[waiting[0]]
        value = next((v for v in waiting if contexts[v] & known), waiting[0])
        waiting.remove(value)
        order.append(value)
    at = {(v, c): i for i, (v, c) in enumerate(zip(own.tolist(), context.tolist()))}
    found = []
    for rank, value in enumerate(order):
        firsts = {c: next((v for v in order[:rank] if (v, c) in at), None) for c in sorted(contexts[value])}
        pairs = [(at[first, c], at[value, c]) for c, first in firsts.items() if first is not None]
        found += [pairs[i] for i in torch.linspace(0, len(pairs) - 1, min(CONTEXTS, len(pairs))).round().int().tolist()]
    source, target = zip(*found) if found else ((), ())
    return torch.tensor(source, dtype=torch.long), torch.tensor(target, dtype=torch.long)


def _error(objects: Objects, factor: int, pairs: tuple[Tensor, Tensor], log: Tensor, turn: Tensor) -> float:
    """The squared error if the sources, warped to the values and places of the targets, stand for these."""
    (source, target), own = pairs, objects.values[:, factor]
    between = (log[own[target]] - log[own[source]], turn[own[target]] - turn[own[source]])
    return float(_errors(objects, pairs, *between).sum())


def _errors(
    objects: Objects, pairs: tuple[Tensor, Tensor], log: Tensor, turn: Tensor, by: Tensor | None = None
) -> Float[Tensor, " pair"]:
    """The same for each pair, whose objects are brought together unless it is said by how much they move."""
    source, target = pairs
    if by is None:
        linear = log.exp()[:, None, None] * rotation(turn)
        by = objects.places[target] - (linear @ objects.places[source].unsqueeze(-1))[..., 0]
    warps = torch.cat([log[:, None], turn[:, None], by], dim=1)
    images = objects.images[source]
    channels = images.shape[1]
    found = warped(images.flatten(0, 1), warps.repeat_interleave(channels, 0)).unflatten(0, (-1, channels))
    return (found - objects.images[target]).square().flatten(1).sum(1)


def _angles(objects: Objects, factor: int, pairs: tuple[Tensor, Tensor], log: Tensor) -> Float[Tensor, " value"]:
    """The angle of each value that brings the sources closest to its targets, next to the angle of the value before."""
    own, angles = objects.values[:, factor], torch.zeros_like(log)
    grey = replace(objects, images=objects.images.square().sum(1, keepdim=True).sqrt())
    source, target = pairs
    for value in own[target].unique_consecutive().tolist():
        these = (own[target] == value).nonzero()[:, 0]
        these = these[torch.linspace(0, len(these) - 1, min(MOST, len(these))).round().long()]
        some = (source[these], target[these])
        before, scale = angles[own[some[0]]], log[value] - log[own[some[0]]]
        angles[value] = _angle(grey, some, scale, before)
    known = own.unique()
    turns = (angles[known].diff() / (2 * math.pi)).round().cumsum(0)
    angles[known[1:]] -= 2 * math.pi * turns
    return torch.where(F.one_hot(known, len(log)).sum(0) > 0, angles - angles[known[len(known) // 2]], 0)


def _angle(objects: Objects, pairs: tuple[Tensor, Tensor], scale: Tensor, before: Tensor) -> float:
    """The angle that brings sources with their own angles and scales closest to the targets."""

    def error(angle: float) -> float:
        return float(_errors(objects, pairs, scale, angle - before).sum())

    best = min((2 * math.pi * step / COARSE for step in range(-COARSE // 2, COARSE // 2)), key=error)
    for finer in FINER:
        step = finer * 2 * math.pi / COARSE
        best = min((best + near * step for near in range(-4, 5)), key=error)
    return best


def rotation(angles: Float[Tensor, " warp"]) -> Float[Tensor, "warp 2 2"]:
    """The matrices that turn (row, column) by angles."""
    cosine, sine = angles.cos(), angles.sin()
    return torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], -2)
