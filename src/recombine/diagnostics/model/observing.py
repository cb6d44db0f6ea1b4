"""Run a model and restore its state afterwards.

    with observing(model, encode, target):     # eval mode; the state is restored afterwards
        model(code)

This covers every module that takes part: the model itself, the owner of a bound method, and the modules that a function
or an object reaches through its closure, its defaults, the globals it uses or its attributes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.diagnostics.model.codes import TensorModel
from recombine.models.evaluation_mode import evaluation_mode

Model = nn.Module | Callable[[Tensor], Any]
DEEPEST = 4  # nesting of functions; deeper modules are hardly part of the diagnosed model


def module_of(model: Model) -> nn.Module | None:
    """The module behind a model: itself, or the owner of a bound method (also inside `functools.partial`)."""
    while isinstance(model, functools.partial | TensorModel):
        model = model.func if isinstance(model, functools.partial) else model.model
    owner = model if isinstance(model, nn.Module) else getattr(model, "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def modules_reached(*things: Any) -> list[nn.Module]:
    """All modules, with their submodules, that models, encodings and targets are made of; each once."""
    found: dict[int, nn.Module] = {}
    seen: set[int] = set()
    for thing in things:
        _reach(thing, found, seen, DEEPEST)
    return list({id(m): m for root in found.values() for m in root.modules()}.values())


def _reach(thing: Any, found: dict[int, nn.Module], seen: set[int], depth: int) -> None:
    if id(thing) in seen or depth < 0:
        return
    seen.add(id(thing))
    if isinstance(thing, nn.Module):
        found[id(thing)] = thing
        return
    within: list[Any] = []
    if isinstance(thing, functools.partial):
        within = [thing.func, *thing.args, *thing.keywords.values()]
    elif isinstance(thing, MethodType):
        within = [thing.__self__, thing.__func__]
    elif isinstance(thing, FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or () if _is_filled(cell)]
        named = [thing.__globals__[name] for name in _names(thing.__code__) if name in thing.__globals__]
        within = [*cells, *named, *(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
    elif isinstance(thing, Mapping):
        within = list(thing.values())
    elif isinstance(thing, list | tuple):
        within = list(thing)
    elif not isinstance(thing, type) and callable(thing) and hasattr(thing, "__dict__"):
        within = list(vars(thing).values())
    elif depth == DEEPEST - 1 and hasattr(thing, "__dict__") and not isinstance(thing, type):
        within = [value for value in vars(thing).values() if isinstance(value, nn.Module)]  # e.g. of a method's owner
    for inner in within:
        _reach(inner, found, seen, depth - 1)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # a name that is not bound yet
        return False
    return True


def _names(code: CodeType) -> set[str]:
    """Names that a function uses, including those in functions that it defines."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


@contextmanager
def observing(*things: Any) -> Iterator[None]:
    """Run a model (and its encoding and target) and restore its state afterwards.

    Inside the block, all modules that take part are in eval mode. Afterwards, even after an exception, their train/eval
    modes, buffers (running means, counters), plain attributes (a cached activation) and torch's random state are
    restored, and no hook or gradient remains.
    """
    modules = modules_reached(*things)
    before = [_Before(module) for module in modules]
    gpus = sorted({t.device.index for m in modules for t in m.parameters(recurse=False) if t.device.type == "cuda"})
    fast = torch.backends.mha.get_fastpath_enabled()
    with evaluation_mode(*modules), torch.random.fork_rng(devices=gpus):
        try:
            torch.backends.mha.set_fastpath_enabled(False)  # fused transformer layers have no derivative and no hooks
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            for state in before:
                state.restore()


@contextmanager
def keeping_weights(*things: Any) -> Iterator[None]:
    """Restore the weights of all modules that take part, even after an exception.

    Raises:
        InputError: if the model changed them itself, because the results would then mix several models.
    """
    weights = [(name, p) for m in modules_reached(*things) for name, p in m.named_parameters(recurse=False)]
    before = [(name, p, p.detach().clone()) for name, p in weights]
    failed = True
    try:
        yield
        failed = False
    finally:
        changed = [name for name, p, content in before if not _same(p, content)]
        with torch.no_grad():
            for _, p, content in before:
                p.data = p.data if _same(p, content) else content
        if changed and not failed:
            raise InputError(
                f"The model changes its own weights when it is called ({', '.join(sorted(set(changed))[:3])}), so "
                "every output comes from a different model. The weights were restored. Diagnose a model whose "
                "forward pass in eval mode does not change them.",
                "model",
            )


def _same(tensor: Tensor, content: Tensor) -> bool:
    return tensor.shape == content.shape and torch.equal(tensor, content)


class _Before:
    """The state of one module."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        scripted = isinstance(module, torch.jit.ScriptModule)
        self.buffers = [(name, b, b.detach().clone()) for name, b in module.named_buffers(recurse=False)]
        self.attributes = {} if scripted else dict(vars(module))
        self.cached = [(t, t.detach().clone()) for t in self.attributes.values() if isinstance(t, Tensor)]
        self.scripted = scripted

    def restore(self) -> None:
        module = self.module
        with torch.no_grad():
            for _, tensor, content in self.buffers:
                _restore(tensor, content)
            for tensor, content in self.cached:
                _restore(tensor, content)
        if self.scripted:
            return
        for name, buffer, _ in self.buffers:
            module._buffers[name] = buffer
        now = vars(module)
        for name in [name for name in now if name not in self.attributes]:
            del now[name]
        now.update(self.attributes)


def _restore(tensor: Tensor, content: Tensor) -> None:
    """Restore the content, and remove the graph that an in-place operation attached to a tensor without one."""
    if tensor.grad_fn is not None and not tensor._is_view():
        tensor.detach_()
    if not torch.equal(tensor, content):
        tensor.copy_(content)
