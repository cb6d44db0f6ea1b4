"""Scenes: factor values → image. Pixel grid, polarity and width are explicit."""

from recombine.core.registry import import_members
from recombine.core.scenes.arrow import Arrow
from recombine.core.scenes.balls import Balls
from recombine.core.scenes.bump import Bump, Stripe
from recombine.core.scenes.images import Images
from recombine.core.scenes.rotated_digit import RotatedDigit
from recombine.core.scenes.scene import SCENES, Scene
from recombine.core.scenes.shapes import Shapes
from recombine.core.scenes.sprites import Sprites
from recombine.core.scenes.square import Square
from recombine.core.scenes.structure import Composition, Structure

import_members(__name__)

__all__ = [
    "SCENES",
    "Arrow",
    "Balls",
    "Bump",
    "Composition",
    "Images",
    "RotatedDigit",
    "Scene",
    "Shapes",
    "Sprites",
    "Square",
    "Stripe",
    "Structure",
]
