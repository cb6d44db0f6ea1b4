"""Decides whether a fast path may replace a network's forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from recombine.models.fast_paths import torch_internals


def parts_of(model: nn.Module) -> list[tuple[Any, ...]]:
    """Name, class and description of everything inside a network."""
    return [(name, type(part), part.extra_repr()) for name, part in model.named_modules() if part is not model]


def fast_path(model: nn.Module, method: str) -> Callable[..., Tensor] | None:
    """The method of a network that computes the same as its `forward`, but faster; None if `forward` must be called.

    A class offers such methods by listing them in `fast_paths` and storing `parts_of(self)` as `built_parts` at the end
    of its constructor. They are used if all of the following hold:

    1. The model has exactly that class. A subclass may compute something else, so it inherits no fast path.
    2. It has the parts that it was built with.
    3. None of them is hooked, patched, compiled or frozen.
    4. torch has the operators that fast paths use.
    """
    if method not in vars(type(model)).get("fast_paths", ()) or not torch_internals.AVAILABLE:
        return None
    if parts_of(model) != model.built_parts or not all(p.requires_grad for p in model.parameters()):
        return None
    if torch_internals.any_global_hook() or any(map(torch_internals.is_changed, model.modules())):
        return None
    return getattr(model, method)
