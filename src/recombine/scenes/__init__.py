"""Scenes: factor values → image. Pixel grid, polarity and width are explicit."""

from recombine.scenes.bump import Bump, Stripe
from recombine.scenes.rotated_digit import RotatedDigit
from recombine.scenes.scene import SCENES, Scene

__all__ = ["SCENES", "Bump", "RotatedDigit", "Scene", "Stripe"]
