"""Training: the one loop, its recipes, example sources, losses, optimizers and checkpoints."""

from recombine.training.callbacks import Callback, CSVLog, TensorBoard
from recombine.training.examples import EXAMPLES, ExampleSource
from recombine.training.loss_terms import TERMS, Batch, LossTerm
from recombine.training.losses import LOSSES, Loss
from recombine.training.optimizers import OPTIMIZERS, OptimizerFactory
from recombine.training.recipes import RECIPES, Paper, Recommended, Training, recipe
from recombine.training.result import TrainingResult

__all__ = [
    "EXAMPLES",
    "LOSSES",
    "OPTIMIZERS",
    "RECIPES",
    "TERMS",
    "Batch",
    "CSVLog",
    "Callback",
    "ExampleSource",
    "Loss",
    "LossTerm",
    "OptimizerFactory",
    "Paper",
    "Recommended",
    "TensorBoard",
    "Training",
    "TrainingResult",
    "recipe",
]
