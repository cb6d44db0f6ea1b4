"""Random numbers for a purpose: a pure function of the seed and what the numbers are for.

No draw depends on how many draws came before it, so a resumed, reordered or batched run sees the same numbers.
"""

from __future__ import annotations

import hashlib
import operator
from typing import SupportsIndex

import torch

from recombine.core.errors import InputError


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator for one purpose of one seed, e.g. generator(seed, "order", epoch)."""
    key = hashlib.sha256("/".join(map(str, (seed, *purpose))).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(key[:8], "big") >> 1)


def check_seed(seed: object) -> int:
    """Return a valid seed unchanged."""
    if isinstance(seed, bool) or not isinstance(seed, SupportsIndex) or not 0 <= operator.index(seed) < 2**63:
        raise InputError(f"A seed must be an integer from 0 to 2^63 − 1. Got {seed!r}.")
    return operator.index(seed)
