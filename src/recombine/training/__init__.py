"""Training: the one loop, its recipes, data, objectives and checkpoints."""

from recombine.training.loop import Run, train, train_seeds
from recombine.training.objective import Batch, LossTerm
from recombine.training.recipe import RECIPES, Paper, Recommended, Training, recipe

__all__ = [
    "RECIPES",
    "Batch",
    "LossTerm",
    "Paper",
    "Recommended",
    "Run",
    "Training",
    "recipe",
    "train",
    "train_seeds",
]
