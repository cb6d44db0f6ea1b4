"""Encodings: factor values → code. Each factor drives its own block of input units, so every code is disentangled.

    encode = Bump(space, width=1.0)
    encode(values)                       # (…, factor) → (…, code)
    encode(values, present)              # absent factors (present = False) get the code for "not specified"

All codes are differentiable in the values of all factors except categorical ones, which only one-hot codes accept.
Units sit at grid positions: unit i of a population code prefers the factor's i-th grid value, and the units of a cyclic
factor form a ring. Distances are in grid steps, also between unevenly spaced values.

Absent factors: population and positional codes use an all-zero block, which no value has. A ramp needs a presence flag
(`flag=True`): each factor then has two units, (value, 1) when present and (0, 0) when absent. The ramp without a flag,
as in the paper, rejects absent factors.
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
