"""Notes on a model that a reader should know before trusting its numbers, found by running a few cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from recombine.diagnostics.model.codes import TensorEncode, TensorModel
from recombine.diagnostics.model.layers import IN, OUT, Subject
from recombine.diagnostics.model.observing import modules_reached
from recombine.diagnostics.model.wrapping import hint_for_wrapped

SAME = 1e-3  # largest difference, relative to the largest output, that counts as rounding


def sanity_notes(subject: Subject, layers: Sequence[str] | None) -> list[str]:
    """Reasons to doubt the numbers, or for missing ones, found by running a few cells in three ways."""
    notes = []
    hint = hint_for_wrapped(subject)
    if hint is not None:
        notes.append(hint)
    elif layers is None and not set(subject.layers) - {IN, OUT}:
        notes.append(
            "no inner layer was found. Nonlinearities are found only if they are modules of an nn.Module that is not "
            "scripted. Use modules such as nn.ReLU() instead of F.relu, or select modules with layers=…."
        )
    cells = subject.some_cells(min(3, len(subject.cells)))
    with torch.no_grad():
        together, again = (subject.output(subject.values(cells)).double() for _ in range(2))
        alone = _alone(subject, cells, tuple(together.shape[1:]))
    training = [type(module).__name__ for module in modules_reached(subject.model) if module.training]
    if training:
        notes.append(
            f"the model puts {len(training)} of its modules into train mode when it is called "
            f"({', '.join(dict.fromkeys(training[:3]))}), so dropout and batch statistics are active. Their mode was "
            "restored."
        )
    size = float(together.abs().max())
    if not bool((again - together).abs().max() <= SAME * size):
        notes.append(
            "the model is stochastic. The same codes gave different outputs in a second call, so the results "
            "describe a single draw. Use draws=8 to diagnose eight draws and their mean."
        )
    elif alone is None:
        notes.append(
            "the model fails on a single code, or returns an output of another shape for it (for example because of "
            "squeeze())."
        )
    elif not bool((alone - together).abs().max() <= SAME * size):
        notes.append(
            "the model draws different noise for every code, so the outputs of one draw also differ by their noise. "
            "recombine.adapt(model, noise=…) passes the same noise to all codes of a draw."
            if _draws_noise(subject, cells, SAME * size)
            else "the model mixes codes. An output depends on the other codes in its batch (for example because of "
            "BatchNorm in train mode), so the results depend on how cells are batched."
        )
    return notes


def _draws_noise(subject: Subject, cells: Int[Tensor, " cell"], rounding: float) -> bool:
    """Whether a model whose noise is fixed for a draw gives other outputs each time if it is not."""
    model, encode = subject.model, subject.encode
    if not isinstance(model, TensorModel) or not isinstance(encode, TensorEncode):
        return False
    free = replace(subject, model=replace(model, noise_seed=None), encode=replace(encode, noise_seed=None))
    with torch.no_grad():
        once, again = (free.output(free.values(cells)).double() for _ in range(2))
    return not bool((again - once).abs().max() <= rounding)


def _alone(subject: Subject, cells: Int[Tensor, " cell"], shape: tuple[int, ...]) -> Shaped[Tensor, "cell ..."] | None:
    """Outputs made one by one; None if the model cannot do that."""
    try:
        made = [subject.output(subject.values(cell[None])) for cell in cells]
    except Exception:
        return None
    return torch.cat(made).double() if all(one.shape == (1, *shape) for one in made) else None
