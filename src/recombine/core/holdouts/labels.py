"""Hold-outs from labelled data."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool

from recombine.core.factors import FactorSpace
from recombine.core.holdouts.holdout import Holdout
from recombine.core.holdouts.mask import mask


def from_labels(space: FactorSpace, labels: Any) -> Holdout:
    """The cells that labels name, for example those of a test set.

    Args:
        space: The factor space.
        labels: A mapping or data frame factor → column of values or labels, or an array (example, factor).
    """
    return mask(space, occurring(space, labels))


def unseen(space: FactorSpace, labels: Any, *, test: Any = None) -> Holdout:
    """The cells that no training example has.

    Args:
        space: The factor space.
        labels: Those of the training examples: a mapping or data frame factor → column of values or labels, or an
            array (example, factor).
        test: Labels of the test examples. Cells that neither set has are then unavailable.
    """
    trained = occurring(space, labels)
    held = mask(space, ~trained)
    return held if test is None else held.within(trained | occurring(space, test))


def occurring(space: FactorSpace, labels: Any) -> Bool[np.ndarray, "..."]:
    """Which cells occur in labels, in the space's shape."""
    from recombine.core.datasets.labels import columns_of, placed

    _, positions = placed(columns_of(labels, space.names), space.factors)
    found = np.zeros(space.shape, dtype=bool)
    found[tuple(positions.T)] = True
    return found
