"""Suggests a replacement for a function around a module that keeps the module's layers visible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from recombine.diagnostics.model.codes import TensorModel
from recombine.diagnostics.model.layers import Subject
from recombine.diagnostics.model.observing import modules_reached
from recombine.models.adapted import parts_of


def hint_for_wrapped(subject: Subject) -> str | None:
    """The call that keeps the layers of the module that a function calls; None if the model is not such a function."""
    called = subject.model
    function = called.model if isinstance(called, TensorModel) else called
    if not isinstance(function, FunctionType):
        return None
    reached = [module for module in modules_reached(function) if not isinstance(module, torch.jit.ScriptModule)]
    if not reached:
        return None
    with torch.no_grad(), _outermost_calls(reached) as calls:
        code = subject.code(subject.values(subject.some_cells(2))).clone()
        out = called(code)
    start = "the model is a function, which hides the layers of the module it calls. "
    if len(calls) != 1:
        return start + (
            "Write an nn.Module with these modules as attributes and the function as its forward method, and "
            "diagnose that module."
        )
    [(module, args, kwargs, output)] = calls
    name = type(module).__name__
    chosen = _chosen(output, out)
    if chosen is None:
        return start + (
            f"Write an nn.Module with the {name} as an attribute and the function as its forward method, and diagnose "
            "that module."
        )
    given = _arguments(args, kwargs, code)
    if given == "code":
        options = [f"output={chosen}"] if chosen else []
        return start + f"Diagnose the {name} directly: recombine.diagnose({', '.join(['module', '…', *options])})."
    options = [f"inputs=lambda code: {given}", *([f"output={chosen}"] if chosen else [])]
    return start + (
        f"Diagnose the {name} directly: recombine.diagnose(recombine.adapt(module, {', '.join(options)}), …)."
    )


_Call = tuple[nn.Module, tuple[Any, ...], Mapping[str, Any], Any]


@contextmanager
def _outermost_calls(modules: Sequence[nn.Module]) -> Iterator[list[_Call]]:
    """Record the calls of modules that are not made by one of them."""
    calls: list[_Call] = []
    depth = 0

    def begin(_module: nn.Module, _args: tuple[Any, ...]) -> None:
        nonlocal depth
        depth += 1

    def end(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        nonlocal depth
        depth -= 1
        if depth == 0:
            calls.append((module, args, kwargs, output))

    handles = [module.register_forward_pre_hook(begin) for module in modules]
    handles += [module.register_forward_hook(end, with_kwargs=True) for module in modules]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _chosen(output: Any, returned: Tensor) -> str | None:
    """The part of the module's output that the function returned, as an argument; empty for all, None for neither."""
    if output is returned:
        return ""
    return next((repr(key) for key, part in parts_of(output).items() if part is returned), None)


def _arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any], code: Tensor) -> str:
    """The arguments with which the function called its module, as source; "…" marks those other than the code."""
    positional = ["code" if arg is code else "…" for arg in args]
    if not kwargs:
        return positional[0] if len(positional) == 1 else f"({', '.join(positional)})"
    if positional:
        return "…"  # both at once: the module's signature tells the names
    named = (f"{key!r}: {'code' if value is code else '…'}" for key, value in kwargs.items())
    return f"{{{', '.join(named)}}}"
