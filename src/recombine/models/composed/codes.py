"""What the entries of a code say about the values of the factors.

A composer weights the operators of values. Codes other than the one-hot code do not state these weights directly:

- A bump code with an entry per value excites neighbouring entries as well. `entries_of` is the linear map that turns
  the code of each value into that value alone.
- A code that means numbers (ramp, bump) has values between those that were trained. `between` weights the two nearest
  trained values, so that shifts and gains are interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.task import Task

SMALLEST = 1e-5  # singular values of a code, relative to the largest, below which it does not distinguish values


def entries_of(codes: Float[Tensor, "value entry"]) -> Float[Tensor, "entry value"]:
    """The map from codes to weights of values: a pseudo-inverse, so that the code of a value gives that value alone."""
    if torch.equal(codes, torch.eye(len(codes)).to(codes)):
        return codes.clone()
    return torch.linalg.pinv(codes.double(), rtol=SMALLEST).to(codes)


def between(trained: Sequence[bool] | Bool[np.ndarray, " value"]) -> Float[Tensor, "value value"]:
    """For each value the weights of the trained values that stand for it: its own, or those of its two trained
    neighbours, linear in between. A value beyond all trained ones stands for itself."""
    known = np.flatnonzero(trained)
    weights = torch.eye(len(trained))
    for value in range(len(trained)):
        above = int(np.searchsorted(known, value))
        if 0 < above < len(known) and known[above] != value:
            low, high = int(known[above - 1]), int(known[above])
            weights[value] = 0
            weights[value, low], weights[value, high] = (high - value) / (high - low), (value - low) / (high - low)
    return weights


def codes_of(task: Task) -> list[Float[Tensor, "value entry"]] | None:
    """For each factor the codes of its values; None if each factor has one number. Other codes are refused."""
    encoding, sizes = task.encoding, task.space.shape
    codes = [encoding.encode_factor(name, factor.grid()).float() for name, factor in task.space.factors.items()]
    blocks = [code.shape[1] for code in codes]
    if blocks == list(sizes):
        return codes
    if any(block != 1 for block in blocks):
        raise InputError(
            "The composed decoder needs a code with one entry per value of each factor "
            f"({', '.join(map(str, sizes))}; onehot, bump) or one number per factor (ramp). Got "
            f"{', '.join(map(str, blocks))} entries.",
            "encoding.kind",
        )
    for name, code in zip(task.space.names, codes):
        if not torch.allclose(code[:, 0], torch.linspace(0, 1, len(code)), atol=1e-5):
            low, high = float(code.min()), float(code.max())
            raise InputError(
                f"The composed decoder needs numbers that go from 0 to 1 in equal steps. Those of factor {name!r} go "
                f"from {low:g} to {high:g}. For the ramp code, set encoding.normalized=true.",
                "encoding",
            )
    return None


def between_of(task: Task) -> list[Float[Tensor, "value value"]]:
    """For each factor `between`, if its code means numbers; else every value stands for itself."""
    seen = task.holdout.id_mask
    found = []
    for axis, size in enumerate(task.space.shape):
        own = seen.any(axis=tuple(a for a in range(seen.ndim) if a != axis))
        found.append(torch.eye(size) if task.encoding.takes_labels else between(np.asarray(own)))
    return found
