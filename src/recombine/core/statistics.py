"""Statistics with stated behaviour for NaN and for zero denominators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Float


def median(values: Float[np.ndarray, " n"] | Iterable[float]) -> float:
    """Median of the known values; NaN if there are none, or if more than half of the values are NaN."""
    given = np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)
    known = given[~np.isnan(given)]
    return float(np.median(known)) if len(known) and 2 * len(known) >= len(given) else float("nan")


def ratio(above: Any, below: Any) -> Any:
    """above / below, entry by entry; NaN where the denominator is 0 or less. A float for two numbers."""
    below = np.asarray(below, dtype=np.float64)
    found = np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0)
    return found if found.shape else float(found)
