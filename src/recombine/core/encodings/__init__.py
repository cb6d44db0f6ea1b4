"""Encodings: factor values → code. Each factor drives its own block of input units, so every code is disentangled.

    encode = Bump(space, width=1.0)
    encode(values)                       # (…, factor) → (…, code)
    encode(values, present)              # absent factors (present = False) get the code for "not specified"

All codes are differentiable in the values of all but categorical factors, which only one-hot codes take. Units sit at
grid positions: unit i of a population code prefers the factor's i-th grid value, and a cyclic factor's units stand in a
ring. Distances count grid steps, also between unequally spaced values.

How an absent factor is encoded: population and positional codes use an all-zero block, which no value has. A ramp
needs a presence flag for that (`flag=True`): each factor then has two units, (value, 1) when present and (0, 0)
when absent. The flagless ramp, the paper's, refuses absent factors.
"""

from recombine.core.encodings.bump import Bump
from recombine.core.encodings.encoding import ENCODINGS, Encoding
from recombine.core.encodings.mixed import Mixed
from recombine.core.encodings.onehot import OneHot
from recombine.core.encodings.positional import Positional
from recombine.core.encodings.ramp import Ramp
from recombine.core.registry import import_members

import_members(__name__)

__all__ = ["ENCODINGS", "Bump", "Encoding", "Mixed", "OneHot", "Positional", "Ramp"]
