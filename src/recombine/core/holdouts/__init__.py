"""Hold-outs: which combinations of factor values are never trained on. The only place with hold-out arithmetic.

    held_out = centre(space, 6, 22)                # 6 ≤ x ≤ 22 and 6 ≤ y ≤ 22, both ends included
    held_out = corner(space, 12) | gap(space, "x", 3, 5)
    held_out.n_id, held_out.n_ood                  # exact counts
    held_out.coverage()                            # is every single factor value still seen in training?

Every cell is trained on (*ID*), held out (*OOD*) or unavailable: some combinations may not exist (`Holdout.within`).
Bounds are factor values, inclusive. A hold-out knows the configuration that rebuilds it, whatever it was combined from.
"""

from recombine.core.holdouts.bounds import Bound
from recombine.core.holdouts.centre import centre
from recombine.core.holdouts.combinations import all_but, all_of, any_of
from recombine.core.holdouts.corner import corner
from recombine.core.holdouts.cross import cross
from recombine.core.holdouts.data import data
from recombine.core.holdouts.gap import gap
from recombine.core.holdouts.holdout import HOLDOUTS, Coverage, Holdout, as_mask, run_lengths
from recombine.core.holdouts.mask import from_run_lengths, mask, where
from recombine.core.holdouts.orthotopic import orthotopic
from recombine.core.holdouts.random import random
from recombine.core.holdouts.side import side
from recombine.core.registry import import_members

import_members(__name__)

__all__ = [
    "HOLDOUTS", "Bound", "Coverage", "Holdout", "all_but", "all_of", "any_of", "as_mask", "centre", "corner", "cross",
    "data", "from_run_lengths", "gap", "mask", "orthotopic", "random", "run_lengths", "side", "where",
]  # fmt: skip
