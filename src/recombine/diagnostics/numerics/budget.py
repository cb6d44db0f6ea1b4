"""A budget of operations for searches whose cost grows with the number of factors or cells.

Operations are estimated, not timed, so that the same seed gives the same result on every machine. A search that exceeds
its budget ends early and records this.
"""

from __future__ import annotations

import math

PER_SECOND = 3 * 10**10  # operations that one core performs in about a second in matrix products
SECONDS = 3.0  # default budget of each part
CALL = 3 * 10**5  # overhead of one call of a tensor operation, about 10 µs


class Budget:
    """The remaining number of operations; unlimited by default.

    A share is a separate budget whose operations also count towards the whole. Operations that a share does not use
    remain available to later shares.
    """

    def __init__(self, operations: int | float = math.inf, whole: Budget | None = None) -> None:
        self.left = operations
        self._whole = whole

    @classmethod
    def seconds(cls, seconds: int | float) -> Budget:
        """Approximately the number of operations that one core performs in this time."""
        return cls(seconds * PER_SECOND)

    def share(self, parts: int | float) -> Budget:
        """An equal share of the remaining operations for one of `parts` remaining tasks."""
        return Budget(self.left / parts, self)

    def spend(self, operations: int | float) -> None:
        """Subtract operations from this budget and from the budget that it is a share of."""
        self.left -= operations
        if self._whole is not None:
            self._whole.spend(operations)

    def affords(self, cost: int | float, most: int) -> int:
        """The number of steps of this cost that the budget still allows, at most `most`."""
        return most if self.left >= cost * most else max(0, int(self.left // cost))
