"""Capture the activations inside any `nn.Module` without changing its `forward`.

with capture(model, nonlinearities(model)) as seen:
    model(code)
seen["layers.1.act"]

A module that is called several times in one forward pass has one activation per call: `act`, `act#2`, `act#3`, …
For a module that returns several tensors (an LSTM), the first one is captured.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from recombine.core.errors import InputError

NONLINEARITIES = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish,
    nn.Sigmoid, nn.Hardsigmoid, nn.LogSigmoid, nn.Tanh, nn.Hardtanh, nn.Hardswish, nn.Softplus, nn.Softsign,
)  # fmt: skip
CALL = "#"  # between a module's name and the number of its second, third, … call
MOST_LISTED = 20


def nonlinearities(model: nn.Module) -> list[str]:
    """Dotted names of the model's nonlinearity modules, in the order in which they were defined."""
    return [name for name, module in model.named_modules() if isinstance(module, NONLINEARITIES)]


@contextmanager
def capture(model: nn.Module, names: Iterable[str], *, copied: Collection[str] = ()) -> Iterator[dict[str, Tensor]]:
    """Collect the outputs of the named modules during one forward pass, in the order in which they are computed.

    The hooks are removed after the block, also after an exception. A module that is never called, or that does not
    return a tensor, has no entry.

    Args:
        model: Any module.
        names: Dotted names of `named_modules()`. A module with several names is listed under the first.
        copied: Activations (as named in the result) to copy immediately, because the model later changes them in place.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    seen: dict[str, Tensor] = {}
    calls: dict[str, int] = {}
    handles = {}
    try:
        for name in names:
            if name not in modules:
                raise InputError(unknown_layer(name, modules))
            if isinstance(modules[name], torch.jit.ScriptModule):
                raise InputError(
                    f"Layer {name!r} is scripted (torch.jit), so its activations cannot be captured. Choose another "
                    "layer."
                )
            if modules[name] not in handles:
                handles[modules[name]] = modules[name].register_forward_hook(_saver(seen, calls, name, copied))
        yield seen
    finally:
        for handle in handles.values():
            handle.remove()


def _saver(seen: dict[str, Tensor], calls: dict[str, int], name: str, copied: Collection[str]):
    def hook(_module: nn.Module, _inputs: tuple[Any, ...], output: Any) -> None:
        calls[name] = calls.get(name, 0) + 1
        key = name if calls[name] == 1 else f"{name}{CALL}{calls[name]}"
        tensor = first_tensor(output)
        if tensor is not None:
            seen[key] = tensor.clone() if key in copied else tensor

    return hook


def first_tensor(output: Any) -> Tensor | None:
    """The output itself, or the first tensor in a tuple, list, mapping or dataclass; None if there is none."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping):
        output = list(output.values())
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        output = [getattr(output, field.name, None) for field in dataclasses.fields(output)]
    if isinstance(output, tuple | list):
        return next((t for t in map(first_tensor, output) if t is not None), None)
    return None


def unknown_layer(name: str, names: Iterable[str]) -> str:
    """The message for a name or pattern that matches no layer: the nearest names, then the first ones."""
    known = [n for n in names if n]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.8)
    close = close or difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    meant = f" (did you mean {', '.join(map(repr, close))}?)" if close else ""
    listed = ", ".join(known[:MOST_LISTED]) + (f", … ({len(known)} in total)" if len(known) > MOST_LISTED else "")
    return f"The model has no layer {name!r}{meant}. Layers: {listed}."


def precision(model: nn.Module) -> torch.dtype:
    """The floating-point type of a model's weights, in which it takes its inputs."""
    weights = (t.dtype for t in [*model.parameters(), *model.buffers()] if t.is_floating_point())
    return next(weights, torch.get_default_dtype())
