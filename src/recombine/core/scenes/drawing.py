"""Drawing primitives that several scenes share: shapes with soft edges on a pixel grid, and colours.

An edge rises from 0 to 1 over `edge` pixels as the cubic 3t² − 2t³. Pixels outside a shape are therefore exactly 0,
pixels inside are exactly 1, and every drawing has a continuous derivative with respect to the position and size of the
shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

COLOURS = {
    "black": (0.0, 0.0, 0.0),
    "white": (1.0, 1.0, 1.0),
    "grey": (0.5, 0.5, 0.5),
    "red": (0.9, 0.1, 0.1),
    "green": (0.1, 0.8, 0.1),
    "blue": (0.15, 0.25, 0.95),
    "yellow": (0.9, 0.85, 0.1),
    "magenta": (0.85, 0.1, 0.85),
    "cyan": (0.1, 0.85, 0.85),
    "orange": (0.95, 0.55, 0.1),
}
CHUNK_PIXELS = 2**18  # drawn at a time: all steps of a chunk stay in the processor's cache


def soft_step(inside: Float[Tensor, "*shape"], edge: float) -> Float[Tensor, "*shape"]:
    """0 where `inside`, the distance from an edge to the inside in pixels, is below −edge/2, 1 above edge/2."""
    half, three = (torch.tensor(number, dtype=inside.dtype, device=inside.device) for number in (0.5, 3.0))
    t = torch.add(half, inside, alpha=1 / edge).clamp(0, 1)
    return t * t * torch.sub(three, t, alpha=2)  # as few passes over memory as possible


def band(offset: Float[Tensor, "*shape pixel"], half: Float[Tensor, "*shape 1"], edge: float) -> Float[Tensor, "..."]:
    """Profile of a band of width 2·half along one image axis."""
    return soft_step(half - offset, edge) * soft_step(half + offset, edge)


def circle(
    across: Float[Tensor, "*shape column"],
    up: Float[Tensor, "*shape row"],
    half: Float[Tensor, "*shape 1"],
    edge: float,
) -> Float[Tensor, "*shape row column"]:
    """A disc of radius `half`. (r² − d²) / 2r is the distance to its edge near it, and smooth at the centre too."""
    across, up = ((half / 2 - offset.square() / half) / 2 for offset in (across, up))
    return soft_step(up.unsqueeze(-1) + across.unsqueeze(-2), edge)


def square(
    across: Float[Tensor, "*shape column"],
    up: Float[Tensor, "*shape row"],
    half: Float[Tensor, "*shape 1"],
    edge: float,
) -> Float[Tensor, "*shape row column"]:
    """A square of side 2·half: the product of two bands."""
    return band(up, half, edge).unsqueeze(-1) * band(across, half, edge).unsqueeze(-2)


def triangle(
    across: Float[Tensor, "*shape column"],
    up: Float[Tensor, "*shape row"],
    half: Float[Tensor, "*shape 1"],
    edge: float,
) -> Float[Tensor, "*shape row column"]:
    """An isosceles triangle, base 2·half below, tip 2·half above it."""
    long = math.sqrt(5) / 2  # from a distance along x to the distance to a slanted side
    slanted = (half / 2).unsqueeze(-1) - up.unsqueeze(-1) / 2
    sides = [soft_step((slanted + sign * across.unsqueeze(-2)) / long, edge) for sign in (-1, 1)]
    return sides[0] * sides[1] * soft_step(half + up, edge).unsqueeze(-1)


def cross(
    across: Float[Tensor, "*shape column"],
    up: Float[Tensor, "*shape row"],
    half: Float[Tensor, "*shape 1"],
    edge: float,
) -> Float[Tensor, "*shape row column"]:
    """Two bars of length 2·half and a third of that in width; 1 − (1 − a)(1 − b) where they meet."""
    level = band(up, half / 3, edge).unsqueeze(-1) * band(across, half, edge).unsqueeze(-2)
    upright = band(up, half, edge).unsqueeze(-1) * band(across, half / 3, edge).unsqueeze(-2)
    return level + upright - level * upright


Outline = Callable[[Tensor, Tensor, Tensor, float], Tensor]
SHAPES: dict[str, Outline] = {"circle": circle, "square": square, "triangle": triangle, "cross": cross}


def hue_colour(hue: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape 3"]:
    """Colours on a circle, a turn being 1: channel k is (1 + cos 2π(hue − k/3)) / 2, smooth everywhere."""
    thirds = torch.arange(3, dtype=hue.dtype, device=hue.device) / 3
    return (1 + torch.cos(2 * math.pi * (hue.unsqueeze(-1) - thirds))) / 2


def painted(
    ground: Float[Tensor, "*shape 3 #row #column"],
    alpha: Float[Tensor, "*shape row column"],
    colour: Float[Tensor, "*shape 3"],
) -> Float[Tensor, "*shape 3 row column"]:
    """Blend a colour over the background: ground + alpha · (colour − ground)."""
    return torch.lerp(ground, colour[..., None, None], alpha.unsqueeze(-3))


def in_chunks(
    draw: Callable[[Tensor, Tensor | None], Tensor],
    values: Float[Tensor, "*shape factor"],
    present: Bool[Tensor, "*shape factor"] | None,
    output_shape: Sequence[int],
) -> Float[Tensor, "*shape ..."]:
    """Draw a large batch in parts, which is several times faster than all at once."""
    rows = values.reshape(-1, values.shape[-1])
    at_once = max(1, CHUNK_PIXELS // math.prod(output_shape))
    if len(rows) <= at_once:
        return draw(values, present)
    shown = None if present is None else present.expand(values.shape).reshape(rows.shape).split(at_once)
    parts = [draw(part, None if shown is None else shown[i]) for i, part in enumerate(rows.split(at_once))]
    return torch.cat(parts).reshape(*values.shape[:-1], *output_shape)
