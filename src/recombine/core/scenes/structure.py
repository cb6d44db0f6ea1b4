"""How a scene composes its factors into an image, stated as data.

Remedies differ in the composition that they can express, so a comparison has to know which one a scene has. A test
checks every statement numerically, pixel by pixel over the scene's grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Composition(StrEnum):
    """How blocks of factors b act together on pixel p, relative to a constant image, the ground."""

    ADDITIVE = "additive"  # ground[p] + Σ_b f_b(z_b)[p]
    PRODUCT = "product"  # ground[p] + Π_b f_b(z_b)[p]
    OCCLUDING = "occluding"  # f_b(z_b)[p] of the last block that covers p, ground[p] where none does
    OTHER = "other"  # none of these, as when one factor moves or turns what another draws


@dataclass(frozen=True)
class Structure:
    """A scene's composition over blocks of factors.

    Attributes:
        composition: How the blocks act together.
        blocks: Names of the factors of each block; every factor of the space is in one block. Of an occluding scene
            the first block is at the back.
        cp_rank: The largest CP rank of a pixel: the smallest R such that its value is Σ_{r≤R} Π_b f_b^r(z_b); None if
            it depends on the settings in a way that is not stated.
    """

    composition: Composition
    blocks: tuple[tuple[str, ...], ...]
    cp_rank: int | None = None
