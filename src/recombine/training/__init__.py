"""Training: the one loop, its recipes, example sources, losses, optimizers and checkpoints."""

from recombine.training.examples import EXAMPLES, ExampleSource
from recombine.training.loop import Run, train, train_seeds
from recombine.training.loss_terms import TERMS, Batch, LossTerm
from recombine.training.losses import LOSSES, Loss
from recombine.training.optimizers import OPTIMIZERS, OptimizerFactory
from recombine.training.recipes import RECIPES, Paper, Recommended, Training, recipe

__all__ = [
    "EXAMPLES",
    "LOSSES",
    "OPTIMIZERS",
    "RECIPES",
    "TERMS",
    "Batch",
    "ExampleSource",
    "Loss",
    "LossTerm",
    "OptimizerFactory",
    "Paper",
    "Recommended",
    "Run",
    "Training",
    "recipe",
    "train",
    "train_seeds",
]
