"""Small scenes, each as pictures over a factor grid. Which ones were looked at in design is in test.yaml."""

from __future__ import annotations

import colorsys
import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float

import recombine as rc
from recombine.core.scenes.mnist import packaged_digits

Image = Float[np.ndarray, "..."]
EDGE = 0.5  # pixels: width of the edges of smooth shapes
SOFT = 4  # sub-pixels per pixel and axis: edges are averaged over them


def _grid(side: int) -> tuple[Image, Image]:
    """Columns and rows of sub-pixel centres, in pixels from the image's centre."""
    at = (np.arange(side * SOFT) + 0.5) / SOFT - side / 2
    return np.meshgrid(at, at)


def _pooled(mask: Image) -> Image:
    side = len(mask) // SOFT
    return mask.reshape(side, SOFT, side, SOFT).mean((1, 3))


def glyph(name: str, side: int, x: float, y: float, radius: float, angle: float = 0.0) -> Image:
    """A filled shape with soft edges, its centre x to the right of the image's and y below it, in pixels."""
    u, v = _grid(side)
    u, v = u - x, v - y
    turn = math.radians(angle)
    u, v = u * math.cos(turn) + v * math.sin(turn), v * math.cos(turn) - u * math.sin(turn)
    distance = np.hypot(u, v)
    thick = 0.36 * radius
    inside = {
        "disc": distance <= radius,
        "square": np.maximum(abs(u), abs(v)) <= 0.86 * radius,
        "triangle": (v <= 0.8 * radius) & (v >= 2 * abs(u) - radius),
        "cross": (np.minimum(abs(u), abs(v)) <= thick) & (np.maximum(abs(u), abs(v)) <= radius),
        "ring": (distance <= radius) & (distance >= 0.5 * radius),
        "bar": (abs(v) <= thick) & (abs(u) <= radius),
        "l": ((abs(u + 0.6 * radius) <= thick) & (abs(v) <= radius))
        | ((abs(v - 0.65 * radius) <= thick) & (abs(u) <= radius)),
        "t": ((abs(u) <= thick) & (abs(v) <= radius)) | ((abs(v + 0.65 * radius) <= thick) & (abs(u) <= radius)),
        "h": (abs(abs(u) - 0.65 * radius) <= thick) & (abs(v) <= radius) | ((abs(v) <= thick) & (abs(u) <= radius)),
    }[name]
    return _pooled(inside.astype(float))


def smooth(name: str, side: int, x: float, y: float, radius: float) -> Image:
    """A nearly band-limited shape: its edge is a logistic function of the distance, sampled at pixel centres."""
    at = np.arange(side) + 0.5 - side / 2
    u, v = np.meshgrid(at - x, at - y)
    distance = np.hypot(u, v)
    thick = 0.4 * radius
    beyond = {
        "disc": distance - radius,
        "square": np.maximum(abs(u), abs(v)) - 0.86 * radius,
        "ring": abs(distance - 0.75 * radius) - 0.3 * radius,
        "cross": np.maximum(np.minimum(abs(u), abs(v)) - thick, np.maximum(abs(u), abs(v)) - radius),
        "bar": np.maximum(abs(v) - thick, abs(u) - radius),
        "drop": distance - radius * (1 - 0.35 * np.sin(np.arctan2(v, u))),
        "t": np.minimum(
            np.maximum(abs(u) - thick, abs(v) - radius),
            np.maximum(abs(v + 0.65 * radius) - thick, abs(u) - radius),
        ),
    }[name]
    return 1 / (1 + np.exp(beyond / EDGE))


def soft(name: str, side: int, x: float, y: float, radius: float, angle: float = 0.0) -> Image:
    """A smooth shape whose edge is as wide as a seventh of its radius, so that a larger one is the same, magnified."""
    at = np.arange(side) + 0.5 - side / 2
    u, v = np.meshgrid((at - x) / radius, (at - y) / radius)
    turn = math.radians(angle)
    u, v = u * math.cos(turn) + v * math.sin(turn), v * math.cos(turn) - u * math.sin(turn)
    distance = np.hypot(u, v)
    beyond = {
        "disc": distance - 1,
        "cross": np.maximum(np.minimum(abs(u), abs(v)) - 0.4, np.maximum(abs(u), abs(v)) - 1),
        "drop": distance - 1 + 0.35 * np.sin(np.arctan2(v, u)),
        "ring": abs(distance - 0.75) - 0.3,
        "bar": np.maximum(abs(v) - 0.4, abs(u) - 1),
        "t": np.minimum(
            np.maximum(abs(u) - 0.4, abs(v) - 1),
            np.maximum(abs(v + 0.6) - 0.4, abs(u) - 1),
        ),
        "wedge": np.maximum(u - 0.8, 1.8 * abs(v) - 0.8 - u),
    }[name]
    return 1 / (1 + np.exp(beyond / 0.14))


def hue(share: float) -> Image:
    return np.array(colorsys.hsv_to_rgb(share, 0.9, 1.0)).reshape(3, 1, 1)


def pictures(space: rc.FactorSpace, draw: Callable[..., Image]) -> Float[np.ndarray, "cell ..."]:
    """A picture per cell, in the order of the grid; `draw` gets the positions of the factors' values."""
    return np.stack([draw(*at) for at in itertools.product(*map(range, space.shape))]).astype(np.float32)


Drawn = tuple[rc.FactorSpace, Float[np.ndarray, "cell ..."]]


def shapes() -> Drawn:
    space = rc.FactorSpace(shape=4, x=9, hue=5)
    names = ("disc", "square", "triangle", "cross")
    return space, pictures(space, lambda s, x, h: hue(h / 5) * glyph(names[s], 24, 2 * x - 8, 0, 3.5))


def digits() -> Drawn:
    """Handwritten digits, 14 × 14 pixels each, moved over 26 × 26 pixels."""
    space = rc.FactorSpace(digit=4, x=7, y=7)
    small = packaged_digits().numpy()[[1, 2, 4, 7]].reshape(4, 14, 2, 14, 2).mean((2, 4)) / 255

    def draw(digit: int, x: int, y: int) -> Image:
        image = np.zeros((26, 26))
        image[2 * y : 2 * y + 14, 2 * x : 2 * x + 14] = small[digit]
        return image

    return space, pictures(space, draw)


def letters() -> Drawn:
    """Tinted letters that move up and down, on a grey ground."""
    space = rc.FactorSpace(letter=3, y=8, tint=4)

    def draw(letter: int, y: int, tint: int) -> Image:
        mask = glyph("lth"[letter], 24, 0, 2 * y - 7, 4.0)
        return 0.4 + mask * (hue(0.1 + tint / 4) - 0.4)

    return space, pictures(space, draw)


def lamps() -> Drawn:
    """A ring that moves in both directions and has one of five brightnesses."""
    space = rc.FactorSpace(x=8, y=8, brightness=5)
    return space, pictures(space, lambda x, y, b: (b + 1) / 5 * glyph("ring", 24, 2 * x - 7, 2 * y - 7, 4.0))


def balls() -> Drawn:
    """Two discs on white that move up and down, side by side (half the size of Lachapelle et al. 2023)."""
    space = rc.FactorSpace(y1=12, y2=12)
    colours = [np.array(c).reshape(3, 1, 1) / 255 for c in ((2, 156, 154), (222, 100, 100))]

    def draw(y1: int, y2: int) -> Image:
        image = np.ones((3, 32, 32))
        for colour, x, y in zip(colours, (-8, 8), (y1, y2)):
            image += glyph("disc", 32, x, 2 * y - 11, 5.0) * (colour - 1)
        return image

    return space, pictures(space, draw)


def sprites() -> Drawn:
    """Two sprites on black that never overlap: each has a shape and a height."""
    space = rc.FactorSpace(shape1=3, y1=6, shape2=3, y2=6)
    names = ("square", "ring", "t")

    def draw(s1: int, y1: int, s2: int, y2: int) -> Image:
        one = hue(0.1) * glyph(names[s1], 24, -6, 3 * y1 - 7.5, 3.5)
        return one + hue(0.6) * glyph(names[s2], 24, 6, 3 * y2 - 7.5, 3.5)

    return space, pictures(space, draw)


def pair() -> Drawn:
    """A triangle above and a cross below, each of which moves along its own line."""
    space = rc.FactorSpace(x1=9, x2=9)

    def draw(x1: int, x2: int) -> Image:
        upper = hue(0.3) * glyph("triangle", 24, 2 * x1 - 8, -6, 3.5)
        return upper + hue(0.8) * glyph("cross", 24, 2 * x2 - 8, 6, 3.5)

    return space, pictures(space, draw)


def occluded() -> Drawn:
    """An opaque disc in front of an opaque square; both move along one line."""
    space = rc.FactorSpace(x1=9, x2=9)

    def draw(x1: int, x2: int) -> Image:
        front, back = glyph("disc", 24, 2 * x1 - 8, 0, 4.0), glyph("square", 24, 2 * x2 - 8, 0, 4.0)
        return front * hue(0.1) + (1 - front) * back * hue(0.6)

    return space, pictures(space, draw)


def covered() -> Drawn:
    """An opaque letter H in front of an opaque ring on a grey ground; both move up and down along one line."""
    space = rc.FactorSpace(y1=9, y2=9)

    def draw(y1: int, y2: int) -> Image:
        front, back = glyph("h", 24, 0, 2 * y1 - 8, 4.0), glyph("ring", 24, 1, 2 * y2 - 8, 4.0)
        ground = 0.4 + back * (hue(0.8) - 0.4)
        return front * hue(0.3) + (1 - front) * ground

    return space, pictures(space, draw)


def fractions() -> Drawn:
    """Grey shapes that move by steps of one and a half pixels."""
    space = rc.FactorSpace(shape=3, x=10)
    names = ("disc", "triangle", "cross")
    return space, pictures(space, lambda s, x: glyph(names[s], 24, 1.5 * x - 6.75, 0, 4.0))


def drifting() -> Drawn:
    """Smooth shapes that move by steps of 1.3 pixels."""
    space = rc.FactorSpace(shape=3, x=11)
    names = ("disc", "cross", "bar")
    return space, pictures(space, lambda s, x: smooth(names[s], 24, 1.3 * x - 6.5, 0, 4.0))


def gliding() -> Drawn:
    """A smooth drop that moves along a curve, x by steps of 0.7 pixels and y by growing ones, and has a brightness."""
    space = rc.FactorSpace(x=15, y=9, brightness=3)

    def draw(x: int, y: int, b: int) -> Image:
        return (b + 2) / 4 * smooth("drop", 26, 0.7 * x - 4.9, 0.8 * y + 0.06 * y * y - 5, 3.5)

    return space, pictures(space, draw)


def sliding() -> Drawn:
    """Tinted smooth shapes on grey that move down by steps of 1.7 pixels."""
    space = rc.FactorSpace(shape=3, y=8, tint=3)

    def draw(s: int, y: int, t: int) -> Image:
        mask = smooth(("ring", "t", "square")[s], 24, 0.3, 1.7 * y - 5.95, 4.0)
        return 0.3 + mask * (hue(0.05 + t / 3) - 0.3)

    return space, pictures(space, draw)


def saturated() -> Drawn:
    """Two smooth discs that move along one line; where they overlap, their sum saturates."""
    space = rc.FactorSpace(x1=9, x2=9)

    def draw(x1: int, x2: int) -> Image:
        return np.tanh(smooth("disc", 24, 2 * x1 - 8, -1, 3.5) + smooth("disc", 24, 2 * x2 - 8, 2, 3.5))

    return space, pictures(space, draw)


def rotated() -> Drawn:
    space = rc.FactorSpace(angle=8, x=8)
    return space, pictures(space, lambda a, x: glyph("l", 24, 2 * x - 7, 0, 4.0, angle=45.0 * a))


def sized() -> Drawn:
    space = rc.FactorSpace(size=6, shape=4, x=7)
    names = ("disc", "square", "triangle", "cross")
    return space, pictures(space, lambda r, s, x: glyph(names[s], 24, 2 * x - 6, 0, 2.0 + 0.5 * r))


def turned() -> Drawn:
    space = rc.FactorSpace(angle=8, shape=3)
    return space, pictures(space, lambda a, s: glyph(("l", "triangle", "cross")[s], 20, 0, 0, 5.0, angle=45.0 * a))


def swelling() -> Drawn:
    """Smooth shapes, each size a fifth larger than the one before."""
    space = rc.FactorSpace(size=5, shape=3)
    return space, pictures(space, lambda r, s: soft(("disc", "cross", "drop")[s], 20, 0, 0, 2.8 * 1.2**r))


def unfolding() -> Drawn:
    """A smooth drop of several sizes in several directions."""
    space = rc.FactorSpace(size=4, angle=6)
    return space, pictures(space, lambda r, a: soft("drop", 20, 0, 0, 2.8 + 0.8 * r, angle=60.0 * a))


def grown() -> Drawn:
    """Smooth shapes, each size a quarter larger than the one before."""
    space = rc.FactorSpace(size=5, shape=3)
    return space, pictures(space, lambda r, s: soft(("ring", "t", "bar")[s], 22, 0.5, -0.3, 2.4 * 1.25**r))


def pivoted() -> Drawn:
    """Letters that lean by steps of 15 degrees."""
    space = rc.FactorSpace(angle=9, letter=3)
    return space, pictures(space, lambda a, s: glyph("lth"[s], 20, 0, 0, 5.5, angle=15.0 * (a - 4)))


def assorted() -> Drawn:
    """Shapes of several sizes that move sideways."""
    space = rc.FactorSpace(size=4, shape=3, x=6)
    names = ("ring", "t", "h")
    return space, pictures(space, lambda r, s, x: glyph(names[s], 22, 2 * x - 5, 0.5, 2.6 + 0.8 * r))


def turned_digits() -> Drawn:
    """Handwritten digits, turned around their common centre."""
    space = rc.FactorSpace(digit=3, angle=8)
    small = packaged_digits()[[2, 4, 7]].float().reshape(3, 1, 28, 28) / 255
    small = torch.nn.functional.pad(small, (2, 2, 2, 2))
    at = (torch.arange(40) + 0.5) / 20 - 1  # twice as fine as the pictures
    v, u = torch.meshgrid(at, at, indexing="ij")

    def draw(digit: int, angle: int) -> Image:
        turn = math.radians(45.0 * angle)
        where = torch.stack([u * math.cos(turn) + v * math.sin(turn), v * math.cos(turn) - u * math.sin(turn)], -1)
        fine = torch.nn.functional.grid_sample(small[[digit]], where.unsqueeze(0), align_corners=False)
        return torch.nn.functional.avg_pool2d(fine, 2)[0, 0].numpy()

    return space, pictures(space, draw)


def whirling() -> Drawn:
    """A tinted wedge of several sizes in several directions, which moves up and down."""
    space = rc.FactorSpace(size=3, angle=6, y=4, tint=2)

    def draw(r: int, a: int, y: int, t: int) -> Image:
        return hue(0.1 + t / 2) * soft("wedge", 22, 0, 2 * y - 3, 2.6 * 1.3**r, angle=60.0 * a + 10)

    return space, pictures(space, draw)


def bump(side: int, sigma: float, *, inverted: bool = False) -> Callable[[], Drawn]:
    def drawn() -> Drawn:
        space = rc.FactorSpace(x=side, y=side)
        scene = rc.scenes.Bump(space, sigma=sigma, inverted=inverted)
        return space, scene(space.values(torch.arange(len(space)))).numpy()

    return drawn


SCENES: dict[str, Callable[[], Drawn]] = {
    "shapes": shapes,
    "bump_28": bump(28, 1.0),
    "inverted_bump_28": bump(28, 1.0, inverted=True),
    "bump_32": bump(32, 1.5),
    "pair": pair,
    "digits": digits,
    "letters": letters,
    "lamps": lamps,
    "bump_24": bump(24, 1.3),
    "inverted_bump_20": bump(20, 1.2, inverted=True),
    "balls": balls,
    "sprites": sprites,
    "occluded": occluded,
    "covered": covered,
    "fractions": fractions,
    "drifting": drifting,
    "gliding": gliding,
    "sliding": sliding,
    "saturated": saturated,
    "rotated": rotated,
    "sized": sized,
    "turned": turned,
    "swelling": swelling,
    "unfolding": unfolding,
    "grown": grown,
    "pivoted": pivoted,
    "assorted": assorted,
    "turned_digits": turned_digits,
    "whirling": whirling,
}
