"""A budget of operations for searches whose cost grows with the number of factors or cells.

Operations are estimated, not timed, so that the same seed gives the same result on every machine. A search that runs
out of its budget ends early and says so.
"""

from __future__ import annotations

import math

PER_SECOND = 3 * 10**10  # operations that one core does in about a second, in matrix products
SECONDS = 3.0  # of each part, unless another budget is given
CALL = 3 * 10**5  # what a call of a tensor library costs however small its arguments are: about 10 µs


class Budget:
    """Operations that may still be done; unlimited unless given.

    A share is a budget of its own, and what it spends is spent of the whole too: what one share leaves over goes to
    those made after it.
    """

    def __init__(self, operations: int | float = math.inf, whole: Budget | None = None) -> None:
        self.left = operations
        self._whole = whole

    @classmethod
    def seconds(cls, seconds: int | float) -> Budget:
        """About as many operations as one core does in this time."""
        return cls(seconds * PER_SECOND)

    def share(self, parts: int | float) -> Budget:
        """An equal share of what is left for one of `parts` tasks that are still to do."""
        return Budget(self.left / parts, self)

    def spend(self, operations: int | float) -> None:
        self.left -= operations
        if self._whole is not None:
            self._whole.spend(operations)

    def affords(self, cost: int | float, most: int) -> int:
        """How many steps of this cost there are operations left for, at most `most`."""
        return most if self.left >= cost * most else max(0, int(self.left // cost))
