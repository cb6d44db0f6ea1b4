"""How many codes a model takes at once: some have fixed buffers, a limit of their own, or too little memory."""

from __future__ import annotations

import torch
from torch import Tensor

from recombine.core.errors import RecombineError
from recombine.diagnostics.model.layers import Subject

FEWEST = 3  # which `examine` has tried


def refused_batch(subject: Subject) -> tuple[int, str] | None:
    """The largest batch that the model takes and why it refuses more; None if it takes as many as are given to it.

    Batches are tried from the largest one that will be used on, each half as large as the one before.
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
    """Why a batch of codes is refused; empty if it is not."""
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
