"""Search for the fewest examples that reach a level: double until it is reached, then bisect.

```python
found = bracket(lambda bumps: localization_with(bumps), most=495)
found.below, found.reached          # the threshold lies above `below`, at or below `reached`
```
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recombine.core.errors import InputError

LEVEL = 0.9  # OOD localization that counts as generalizing (Liang et al. 2025, Sec. 5)


@dataclass(frozen=True)
class Bracket:
    """The interval of a threshold: above `below`, and at or below `reached`.

    Attributes:
        below: The largest number tried that did not suffice; `least` − 1 if even the smallest one sufficed.
        reached: The smallest number tried that did suffice; None if not even `most` did.
        most: The budget.
        tried: Maps numbers to scores.
    """

    below: int
    reached: int | None
    most: int
    tried: dict[int, float]

    def __str__(self) -> str:
        if self.reached is None:
            return f"not reached by {self.most}"
        return f"{self.reached} (more than {self.below})" if self.below in self.tried else str(self.reached)


def bracket(
    score: Callable[[int], float],
    most: int,
    *,
    least: int = 0,
    start: int = 8,
    level: float = LEVEL,
    resolution: float = 0.1,
) -> Bracket:
    """Search for the smallest number with score ≥ level.

    The score is assumed to grow with the number. Where it does not, the result is one of its crossings.

    Args:
        score: Maps a number to its score; called once per number.
        most: The largest number to try.
        least: The smallest number to try.
        start: Where doubling starts.
        level: The score to reach, in (0, 1].
        resolution: Stop once the interval is narrower than this share of its upper end (or a single number).
    """
    if not 0 <= least <= most:
        raise InputError(f"A search needs 0 ≤ least ≤ most. Got least={least}, most={most}.")
    if not 0 < level <= 1:
        raise InputError(f"The level of a search must lie in (0, 1]. Got {level}.")
    if resolution < 0 or start < 1:
        raise InputError(f"A search needs resolution ≥ 0 and start ≥ 1. Got {resolution} and {start}.")
    tried: dict[int, float] = {}

    def reaches(number: int) -> bool:
        tried[number] = score(number)
        return tried[number] >= level

    if reaches(least):
        return Bracket(least - 1, least, most, tried)
    below, above = least, min(max(start, least + 1), most)
    while above > below and not reaches(above):
        below, above = above, min(2 * above, most)
    if above == below:
        return Bracket(below, None, most, tried)
    while above - below > max(1, resolution * above):
        middle = (below + above) // 2
        if reaches(middle):
            above = middle
        else:
            below = middle
    return Bracket(below, above, most, tried)
