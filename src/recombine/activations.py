"""Reach the activations inside any `nn.Module` without changing its `forward`.

with capture(model, nonlinearities(model)) as seen:
    model(code)
seen["layers.1.act"]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from recombine.errors import InputError
from recombine.registry import nearest

NONLINEARITIES = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish,
    nn.Sigmoid, nn.Hardsigmoid, nn.LogSigmoid, nn.Tanh, nn.Hardtanh, nn.Hardswish, nn.Softplus, nn.Softsign,
)  # fmt: skip


def nonlinearities(model: nn.Module) -> list[str]:
    """Dotted names of the model's nonlinearity modules, in the order in which they were defined."""
    return [name for name, module in model.named_modules() if isinstance(module, NONLINEARITIES)]


@contextmanager
def capture(model: nn.Module, names: Iterable[str]) -> Iterator[dict[str, Tensor]]:
    """Collect the outputs of the named modules during the block; the hooks are gone afterwards, come what may."""
    modules = dict(model.named_modules())
    seen: dict[str, Tensor] = {}
    handles = []
    try:
        for name in names:
            if name not in modules:
                raise InputError(
                    f"The model has no layer {name!r}{nearest(name, modules)}. "
                    f"Layers: {', '.join(n for n in modules if n)}."
                )
            handles.append(modules[name].register_forward_hook(_saver(seen, name)))
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _saver(seen: dict[str, Tensor], name: str):
    def hook(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
        seen[name] = output

    return hook
