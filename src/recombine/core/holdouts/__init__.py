"""Hold-outs: which combinations of factor values are never trained on. The only place with hold-out arithmetic.

    held_out = centre(space, 6, 22)                # 6 ≤ x ≤ 22 and 6 ≤ y ≤ 22, both ends included
    held_out = corner(space, 12) | gap(space, "x", 3, 5)
    held_out = cells(space, [{"colour": "red", "shape": "square"}])
    held_out = unseen(space, training_labels)      # all cells without a training example
    held_out.n_id, held_out.n_ood                  # exact counts
    held_out.coverage()                            # is every single factor value still seen in training?
    held_out.covered_order()                       # 1: some pair of values never occurs together
    held_out.pixel_coverage(scene)                 # share of the unseen images in pixels that training lights

Every cell is trained on (*ID*), held out (*OOD*) or unavailable: some combinations may not exist (`Holdout.within`).
Bounds are factor values, inclusive. A hold-out knows the configuration that rebuilds it, even if it is a combination.
"""

from recombine.core.holdouts.bounds import Bound
from recombine.core.holdouts.cells import cells
from recombine.core.holdouts.centre import centre
from recombine.core.holdouts.comb import comb
from recombine.core.holdouts.combinations import all_but, all_of, any_of
from recombine.core.holdouts.corner import corner
from recombine.core.holdouts.cross import cross
from recombine.core.holdouts.data import data
from recombine.core.holdouts.diagonal import diagonal
from recombine.core.holdouts.extrapolation import extrapolation
from recombine.core.holdouts.gap import gap
from recombine.core.holdouts.holdout import HOLDOUTS, Coverage, Holdout, as_mask, run_lengths
from recombine.core.holdouts.labels import from_labels, unseen
from recombine.core.holdouts.levels import levels
from recombine.core.holdouts.mask import from_run_lengths, mask, where
from recombine.core.holdouts.montero import montero
from recombine.core.holdouts.orthotopic import orthotopic
from recombine.core.holdouts.random import random
from recombine.core.holdouts.recombination_to_element import recombination_to_element
from recombine.core.holdouts.recombination_to_range import recombination_to_range
from recombine.core.holdouts.side import side
from recombine.core.holdouts.supports import connected, disconnected
from recombine.core.registry import import_members

import_members(__name__)

__all__ = [
    "HOLDOUTS", "Bound", "Coverage", "Holdout", "all_but", "all_of", "any_of", "as_mask", "cells", "centre", "comb",
    "connected", "corner", "cross", "data", "diagonal", "disconnected", "extrapolation", "from_labels",
    "from_run_lengths", "gap", "levels", "mask", "montero", "orthotopic", "random", "recombination_to_element",
    "recombination_to_range", "run_lengths", "side", "unseen", "where",
]  # fmt: skip
