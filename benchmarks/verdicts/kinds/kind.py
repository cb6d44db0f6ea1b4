"""What a kind of decoder is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.verdicts.expected import Decoder
from benchmarks.verdicts.grid import Grid

Make = Callable[[Grid, np.random.Generator], Decoder]


@dataclass(frozen=True)
class Kind:
    """A way to answer unseen combinations.

    Attributes:
        make: Makes such a decoder; raises `Unsuitable` where the grid does not allow it.
        nuisance: Whether noise, blur and a change of strength may be added to all outputs without changing what is
            expected.
        noise: The largest noise that may, relative to the truth's variance.
        splits: The hold-outs to draw from; all of them if empty.
    """

    make: Make
    nuisance: bool = True
    noise: float = 0.03
    splits: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.make.__name__
