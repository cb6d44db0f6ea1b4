"""The layers of any model as functions of the factors: factor values → code → activations.

    with observing(model):                                   # eval mode; the state is restored afterwards
        subject = examine(model, space, encode)              # default: after every nonlinearity, "in" and "out"
        subject.activations(subject.values(cells))           # {"in": (cell, …), "layers.1.act": …, "out": …}
    examine(model, space, encode, layers=["layers.*.act", "out"])

A layer is chosen by the dotted name of its module (as in `named_modules()`), by a shell pattern over these names, or
as "in" (the code) and "out" (the model's output). A module called several times in one pass is a layer at each call:
`act`, `act#2`, … A callable that is not a module has only "in" and "out"; a bound method (`vae.decode`) is treated as
its module. Nonlinearities written as functions (`F.relu`) are not modules, so only the modules around them are visible.
A scripted module (`torch.jit.script`) is treated as a callable, because it has no hooks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from recombine.core.errors import InputError, RecombineError
from recombine.core.factors import FactorSpace
from recombine.diagnostics.model.codes import Encode, TensorModel, tried
from recombine.diagnostics.model.observing import Model, module_of, observing
from recombine.diagnostics.numerics.grids import rows_of
from recombine.models.activations import CALL, capture, nonlinearities, unknown_layer
from recombine.models.adapted import not_a_tensor

IN, OUT = "in", "out"
SEVERAL = (
    " If the model takes several arguments, return a tuple; if it takes keywords, return a mapping; if it takes one "
    'dict, forward(batch), return {"batch": {…}}. recombine.adapt adds noise.'
)
MEMORY = 2**25  # bytes of activations in one pass: more is not faster, and exceeds the processor's cache
MOST_CELLS = 1024


def batch_limit(model: Model) -> int | None:
    """The largest batch that a model accepts, if it is known to reject larger ones."""
    return getattr(model, "most_cells", None) if isinstance(model, TensorModel) else None


def hooked(model: Model) -> nn.Module | None:
    """The module whose inner layers are visible; None for a callable or a scripted module, which has no hooks."""
    module = module_of(model)
    return None if isinstance(module, torch.jit.ScriptModule) else module


@dataclass(frozen=True)
class Layer:
    """One activation of the model.

    Attributes:
        name: "in", "out", a module's dotted name, or `name#2` for its second call.
        shape: Shape of one cell's activation.
        batch_axis: The axis of cells in the tensor that the module returns (0, or 1 for sequence-first modules).
        memory_order: The axes of `shape` from the outermost to the innermost in memory.
        copied: Whether the model changes this tensor in place later, so that it has to be copied.
    """

    name: str
    shape: tuple[int, ...]
    batch_axis: int = 0
    memory_order: tuple[int, ...] = ()
    copied: bool = False

    @property
    def units(self) -> int:
        return math.prod(self.shape)

    def cells_first(self, seen: Tensor) -> Shaped[Tensor, "cell ..."]:
        return seen.movedim(self.batch_axis, 0)

    def rows(self, seen: Tensor) -> Shaped[Tensor, "cell unit"]:
        """One row per cell. Units are in memory order, which avoids a copy and is the same for every batch."""
        return rows_of(self.cells_first(seen).permute(0, *(a + 1 for a in self.memory_order)))


@dataclass(frozen=True)
class Subject:
    """A model, its code and its selected layers. Created by `examine`.

    Attributes:
        model, space, encode: The arguments of `examine`.
        layers: The chosen layers by name, in the order in which the model computes them.
        dtype: The precision of the factor values that are passed to `encode`.
        device: The device of the model.
        code_dtype: The type that `encode` returns; not a floating-point type for models that take integers.
        bytes_per_cell: Memory of all activations of one cell, selected or not.
        cells: The cells that exist, ascending. The model is never run on others.
    """

    model: Model
    space: FactorSpace
    encode: Encode | None
    layers: dict[str, Layer]
    dtype: torch.dtype
    device: torch.device
    code_dtype: torch.dtype
    bytes_per_cell: int
    cells: Int[Tensor, " cell"]
    _weights_dtype: torch.dtype | None = field(default=None, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.layers)

    @property
    def differentiable(self) -> list[int]:
        """The axes of the factors along which there are derivatives."""
        return [axis for axis, factor in enumerate(self.space.factors.values()) if factor.differentiable]

    @property
    def complete(self) -> bool:
        """Whether all cells of the grid exist."""
        return len(self.cells) == len(self.space)

    def some_cells(self, count: int) -> Int[Tensor, " cell"]:
        """`count` existing cells, spread over the grid; repeated if there are fewer."""
        return spread_cells(self.cells, count)

    @property
    def existing(self) -> Bool[np.ndarray, " cell"]:
        """True at the cells that exist."""
        exist = np.zeros(len(self.space), dtype=bool)
        exist[self.cells.numpy()] = True
        return exist

    @property
    def bytes_kept(self) -> int:
        """Memory of the chosen activations of one cell."""
        return max(1, sum(layer.units for layer in self.layers.values()) * self.dtype.itemsize)

    def cells_within(self, memory: int = MEMORY) -> int:
        """The number of cells per forward pass for `memory` bytes of activations; at least one."""
        most = batch_limit(self.model) or MOST_CELLS
        return max(1, min(most, MOST_CELLS, memory // max(1, self.bytes_per_cell)))

    def values(self, cells: Int[Tensor, " cell"]) -> Float[Tensor, "cell factor"]:
        """Factor values of cells, in the model's precision and on its device."""
        return grid_values(self.space, cells, self.dtype).to(self.device)

    def code(self, values: Float[Tensor, "cell factor"]) -> Shaped[Tensor, "cell ..."]:
        """The codes of factor values."""
        return _encoded(self.encode, values, self._weights_dtype)

    def activations(self, values: Float[Tensor, "cell factor"]) -> dict[str, Shaped[Tensor, "cell ..."]]:
        """One forward pass: every chosen layer's activation, (cell, …)."""
        return {name: self.layers[name].cells_first(seen) for name, seen in self._seen(values).items()}

    def rows(self, values: Float[Tensor, "cell factor"]) -> dict[str, Shaped[Tensor, "cell unit"]]:
        """As `activations`, flattened to one row per cell with the units in an order fixed for each layer."""
        return {name: self.layers[name].rows(seen) for name, seen in self._seen(values).items()}

    def output(self, values: Float[Tensor, "cell factor"]) -> Shaped[Tensor, "cell ..."]:
        """The model's output alone, unchanged."""
        return self.model(self.code(values).clone())

    def check_finite(self, rows: dict[str, Shaped[Tensor, "cell unit"]], values: Float[Tensor, "cell factor"]) -> None:
        """Raise at the first cell with a NaN or infinite activation."""
        for name, row in rows.items():
            if row.is_floating_point() and not bool(torch.isfinite(row.sum())):
                bad = ~torch.isfinite(row).all(1)
                if bool(bad.any()):
                    raise InputError(_not_finite(name, self.space, values[bad.nonzero()[0, 0]]))

    def _seen(self, values: Tensor) -> dict[str, Tensor]:
        code = self.code(values)
        inner = [name for name in self.layers if name not in (IN, OUT)]
        copied = {name for name, layer in self.layers.items() if layer.copied}
        module = hooked(self.model)
        modules = list(dict.fromkeys(name.partition(CALL)[0] for name in inner))
        with nullcontext({}) if module is None else capture(module, modules, copied=copied) as seen:
            out = self.model(code.clone())  # a model may write into its input
        found = {IN: code, **seen, OUT: out}
        missing = [name for name in self.layers if name not in found]
        if missing:
            raise InputError(
                f"The model does not call layer {missing[0]!r} at every cell, so some activations are missing. Choose "
                "other layers."
            )
        return {name: found[name] for name in self.layers}


def grid_values(space: FactorSpace, cells: Int[Tensor, " cell"], dtype: torch.dtype) -> Float[Tensor, "cell factor"]:
    """The factor values of cells, exact in the given precision whatever torch's default is."""
    coordinates = space.coordinates(cells).to(torch.float64)
    columns = [f.value(coordinates[:, axis]) for axis, f in enumerate(space.factors.values())]
    return torch.stack(columns, dim=-1).to(dtype)


def precision_of(model: Model) -> tuple[torch.dtype | None, torch.dtype, torch.device]:
    """The type of a model's weights (None if it has none), the type of its factor values, and its device."""
    module = module_of(model)
    tensors = [] if module is None else [t for t in [*module.parameters(), *module.buffers()] if t.is_floating_point()]
    weights = tensors[0].dtype if tensors else None
    dtype = weights or torch.get_default_dtype()
    if dtype not in (torch.float32, torch.float64):
        dtype = torch.float32
    return weights, dtype, tensors[0].device if tensors else torch.device("cpu")


def spread_cells(cells: Int[Tensor, " cell"], count: int) -> Int[Tensor, " some"]:
    """`count` of the cells, spread evenly; repeated if there are fewer."""
    return cells[torch.linspace(0, len(cells) - 1, count).long()]


def existing_cells(space: FactorSpace, available: Bool[np.ndarray, "..."] | None) -> Int[Tensor, " cell"]:
    """The cells that exist, ascending: all unless an array over the grid says which."""
    return torch.arange(len(space)) if available is None else torch.from_numpy(np.flatnonzero(available))


def examine(
    model: Model,
    space: FactorSpace,
    encode: Encode | None = None,
    *,
    layers: str | Sequence[str] | None = None,
    available: Bool[np.ndarray, "..."] | None = None,
) -> Subject:
    """Choose layers and find their shapes by running the model on a few cells.

    Args:
        model: A module or any callable from codes (cell, …) to outputs (cell, …).
        space: The factor space.
        encode: Factor values (cell, factor) → codes (cell, …); None if the model takes the factor values themselves.
        layers: Names or patterns (see the module docstring); None for "in", every nonlinearity, "out".
        available: True at the cells that exist, over the grid; None for all.

    Raises:
        InputError: if a name or pattern matches no layer, if the model does not run on the codes, or if its output is
            not a tensor with one entry per cell.
    """
    if not callable(model):
        raise InputError(f"A model must be an nn.Module or a function of the code. Got {type(model).__name__}.")
    weights, dtype, device = precision_of(model)
    chosen = _chosen(hooked(model), layers)
    existing = existing_cells(space, available)
    with observing(model, encode), torch.no_grad():
        few, more = (
            _trial(model, grid_values(space, cells, dtype).to(device), encode, weights, chosen.watched)
            for cells in (spread_cells(existing, n) for n in (2, 3))
        )
    found = _described(few, more, chosen)
    return Subject(
        model,
        space,
        encode,
        found,
        dtype,
        device,
        getattr(encode, "code_dtype", None) or more.seen[IN].dtype,
        more.size // 3,
        existing,
        _weights_dtype=weights,
    )


@dataclass(frozen=True)
class _Chosen:
    """The names to watch, and those of them that must occur because they were requested by name."""

    names: dict[str, bool]
    asked: tuple[str, ...]

    @property
    def watched(self) -> list[str]:
        return [name for name in self.names if name not in (IN, OUT)]


def _chosen(module: nn.Module | None, layers: str | Sequence[str] | None) -> _Chosen:
    if layers is None:
        inner = [] if module is None else [name for name in nonlinearities(module) if name]
        return _Chosen(dict.fromkeys([IN, *inner, OUT], False), ())
    asked = [layers] if isinstance(layers, str) else list(layers)
    if not asked:
        raise InputError('No layers were selected. Give names or patterns such as "layers.*.act", or None for all.')
    inner = [] if module is None else [n for n, _ in module.named_modules(remove_duplicate=False) if n]
    known = list(dict.fromkeys([IN, *inner, OUT]))
    names: dict[str, bool] = {}
    for name in asked:
        plain = name if name in known else name.partition(CALL)[0]
        fits = [plain] if plain in known else [n for n in known if fnmatchcase(n, plain)]
        if not fits:
            hint = " Callables and scripted modules have no other layers." if module is None else ""
            raise InputError(unknown_layer(name, known) + hint)
        for n in fits:
            names[n] = names.get(n, False) or plain in known
    return _Chosen(names, tuple(asked))


@dataclass(frozen=True)
class _Trial:
    """The result of one forward pass: activations, those that were changed in place afterwards, and total bytes."""

    seen: dict[str, Tensor]
    changed: set[str]
    size: int


def _trial(
    model: Model, values: Tensor, encode: Encode | None, weights: torch.dtype | None, names: list[str]
) -> _Trial:
    code = tried(lambda given: _encoded(encode, given, weights), values)
    module = hooked(model)
    made: list[int] = []
    versions: dict[str, int] = {}
    with ExitStack() as stack:
        seen: dict[str, Tensor] = {}
        if module is not None:
            seen = stack.enter_context(capture(module, names))
            for inner in (m for m in module.modules() if not isinstance(m, torch.jit.ScriptModule)):
                stack.callback(inner.register_forward_hook(_watcher(made, versions, seen)).remove)
        try:
            out = model(code.clone())
        except RecombineError:
            raise
        except (Exception, SystemExit) as error:
            raise InputError(
                f"The model failed on codes of shape {tuple(code.shape)} and type {code.dtype}: "
                f"{type(error).__name__}: {error}. Check that `encode` returns the codes that the model was trained "
                "on." + (SEVERAL if isinstance(error, TypeError) else "")
            ) from error
    if not isinstance(out, Tensor):
        raise InputError(not_a_tensor(out), "output")
    if out.is_complex():
        raise InputError(
            f"The model's output is complex ({out.dtype}), but only real numbers can be compared. Wrap the model in "
            "an nn.Module that returns torch.view_as_real(output) or the absolute value."
        )
    if out.is_meta or out.layout is not torch.strided:
        raise InputError(
            f"The model's output must be a dense tensor with numbers. Got {out.layout} on {out.device}. Wrap the model "
            "in an nn.Module that returns output.to_dense() on a real device."
        )
    if out.ndim > 0 and len(out) and not out.numel():
        raise InputError(f"The model's output is empty. Its shape is {tuple(out.shape)}.")
    if out.ndim == 0 or len(out) != len(values):
        raise InputError(
            f"The model's output must have one entry per code, {len(values)} here. Got shape {tuple(out.shape)}."
        )
    changed = {name for name, version in versions.items() if seen[name]._version != version}
    size = sum(t.numel() * t.element_size() for t in (code, out)) * (1 if made else 4) + sum(made)
    return _Trial({IN: code, **seen, OUT: out}, changed, size)


def _watcher(made: list[int], versions: dict[str, int], seen: dict[str, Tensor]):
    """A hook that records the memory of outputs and how often captured tensors were written to."""

    def hook(module: nn.Module, _inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor) and not list(module.children()):
            made.append(output.numel() * output.element_size())
        for name, tensor in seen.items():
            versions.setdefault(name, tensor._version)

    return hook


def _encoded(encode: Encode | None, values: Tensor, weights: torch.dtype | None) -> Tensor:
    code = values if encode is None else encode(values)
    if not isinstance(code, Tensor) or code.ndim == 0 or len(code) != len(values):
        got = f"shape {tuple(code.shape)}" if isinstance(code, Tensor) else type(code).__name__
        raise InputError(
            f"`encode` must map factor values of shape {tuple(values.shape)} to a tensor with one code per row. Got "
            f"{got}."
        )
    return code.to(weights) if weights is not None and code.is_floating_point() else code


def _not_finite(name: str, space: FactorSpace, values: Tensor) -> str:
    what = {IN: "The code", OUT: "The model's output"}.get(name, f"Layer {name!r}")
    return (
        f"{what} is NaN or infinite at {space.describe(values.tolist())}, the first such cell (cell "
        f"{int(space.cells(values))}). Check the weights, and that the codes lie in the range that the model was "
        "trained on."
    )


def _described(few: _Trial, more: _Trial, chosen: _Chosen) -> dict[str, Layer]:
    """The chosen layers that the model reached and that have one entry per cell."""
    layers = {}
    for name in more.seen:
        plain = name.partition(CALL)[0] if name not in chosen.names else name
        if plain not in chosen.names or not _wanted(name, plain, chosen):
            continue
        axis = _batch_axis(tuple(few.seen[name].shape) if name in few.seen else (), tuple(more.seen[name].shape))
        if axis is not None:
            layers[name] = _layer(name, more.seen[name], axis, copied=name in more.changed)
        elif chosen.names[plain]:
            raise InputError(
                f"Layer {name!r} has no axis with one entry per code (its shape for 3 codes is "
                f"{tuple(more.seen[name].shape)}), so it does not depend on the code or mixes codes. Choose another "
                "layer."
            )
    for asked in chosen.asked:
        plain = asked if asked in chosen.names else asked.partition(CALL)[0]
        fits = [n for n in layers if n == asked or fnmatchcase(n, asked) or n.partition(CALL)[0] == plain == asked]
        if not fits:
            raise InputError(
                f"Layer {asked!r} exists, but the model does not use it to compute its output from the code. "
                f"Layers it uses: {', '.join(more.seen)}."
            )
    return layers


def _wanted(name: str, plain: str, chosen: _Chosen) -> bool:
    """All calls of a module that was selected by its name or pattern, or the one call that was requested."""
    if not chosen.asked or name in (IN, OUT):
        return True
    return any(name == a or fnmatchcase(name, a) or a == plain or fnmatchcase(plain, a) for a in chosen.asked)


def _batch_axis(few: tuple[int, ...], more: tuple[int, ...]) -> int | None:
    """The axis of the cells: the one with length 2 for two cells and length 3 for three."""
    if len(few) != len(more):
        return None
    changing = [axis for axis, sizes in enumerate(zip(few, more)) if sizes[0] != sizes[1]]
    return changing[0] if len(changing) == 1 and (few[changing[0]], more[changing[0]]) == (2, 3) else None


def _layer(name: str, tensor: Tensor, axis: int, *, copied: bool) -> Layer:
    tensor = tensor.movedim(axis, 0)
    shape = tuple(tensor.shape[1:])
    order = sorted(range(len(shape)), key=lambda a: -tensor.stride(a + 1))
    return Layer(name, shape, axis, tuple(order), copied)
