"""The batch size that a model accepts: some have fixed buffers, a built-in limit, or too little memory."""

from __future__ import annotations

import torch
from torch import Tensor

from recombine.core.errors import RecombineError
from recombine.diagnostics.model.layers import Subject

FEWEST = 3  # which `examine` has tried


def refused_batch(subject: Subject) -> tuple[int, str] | None:
    """The largest batch that the model accepts and why it rejects larger ones; None if it accepts all.

    Batch sizes are tried from the largest one that will be used, halving each time.
    """
    count = min(subject.cells_within(), len(subject.cells))
    reason = ""
    while count > FEWEST:
        problem = _problem(subject, count)
        if not problem:
            return (count, reason) if reason else None
        reason = reason or problem
        count = max(FEWEST, count // 2)
    return (FEWEST, reason) if reason else None


def _problem(subject: Subject, count: int) -> str:
    """Why the model rejects a batch of codes; empty if it does not."""
    values = subject.values(subject.some_cells(count))
    try:
        with torch.no_grad():
            made = subject.output(values)
    except RecombineError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if not isinstance(made, Tensor) or made.ndim == 0 or len(made) != count:
        got = f"shape {tuple(made.shape)}" if isinstance(made, Tensor) else type(made).__name__
        return f"for {count} codes it returns {got}"
    return ""
