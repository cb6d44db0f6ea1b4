"""The kinds of decoders, by name. A kind is a function of a grid and a random generator."""

from __future__ import annotations

from benchmarks.verdicts.kinds import (
    additive,
    collapses,
    copies,
    everywhere,
    mixtures,
    right,
    strength,
    sums,
    undecided,
    values,
)
from benchmarks.verdicts.kinds.kind import Kind

KINDS: dict[str, Kind] = {
    kind.name: kind
    for module in (right, strength, sums, copies, collapses, values, mixtures, everywhere, undecided, additive)
    for kind in module.KINDS
}
