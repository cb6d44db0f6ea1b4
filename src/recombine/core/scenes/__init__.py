"""Scenes: factor values → image. Pixel grid, polarity and width are explicit."""

from recombine.core.scenes.bump import Bump, Stripe
from recombine.core.scenes.images import Images
from recombine.core.scenes.rotated_digit import RotatedDigit
from recombine.core.scenes.scene import SCENES, Scene

__all__ = ["SCENES", "Bump", "Images", "RotatedDigit", "Scene", "Stripe"]
