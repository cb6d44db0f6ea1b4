"""The named recipes. One file each; recipes are selected by their kind. Plug-ins can add more."""

from recombine.core.registry import import_members
from recombine.training.recipe import RECIPES, Training, recipe
from recombine.training.recipes.paper import Paper
from recombine.training.recipes.recommended import Recommended

__all__ = ["RECIPES", "Paper", "Recommended", "Training", "recipe"]

import_members(__name__)
