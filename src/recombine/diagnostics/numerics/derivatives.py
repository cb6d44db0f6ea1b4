"""Exact derivatives of a model's layers with respect to the factors, by the first method that works for the model.

Column i of a layer's Jacobian J is the derivative of its activation with respect to the i-th factor. Categorical
factors have no derivatives and are omitted. Forward mode computes one column for all layers in one pass. If an
operation has no forward-mode rule, the next method is tried:

    forward                            jvp, vectorized over the factors
    forward, attention in math mode    the same with attention composed of basic operations
    forward, mkldnn off                also without mkldnn's fused kernels (LSTMs)
    double vjp                         J v as the derivative of u ↦ uᵀJ v (custom functions)
    reverse rows                       J row by row, one backward pass per unit: slow, but always works

All five methods give the same result. For a custom function with its own backward pass (such as a straight-through
estimator), that backward pass is used.
"""

from __future__ import annotations

import functools
import importlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Real
from torch import Tensor
from torch.func import jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from recombine.core.errors import InputError, Missing, NotComputable, RecombineError
from recombine.diagnostics.model.layers import Subject

SMALL, LARGE = 2.0**-50, 2.0**50  # columns in this range are multiplied without rescaling
BLOCK = 4096  # number of units summed in the model's precision before accumulating in float64
TRIAL_CELLS = 3

Metrics = dict[str, Float[Tensor, "cell direction direction"]]
Found = tuple[dict[str, Tensor], Metrics]  # activations (cell, unit) and metrics of every layer


def metric_by_method(subject: Subject, values: Float[Tensor, "cell factor"], derivative_method: str) -> Metrics:
    """g = JᵀJ of every layer at the given cells, computed by one derivative method. Returned on the CPU in float64."""
    with _backend(derivative_method):
        rows, metrics = _METHODS[derivative_method](subject, values)
    subject.check_finite(rows, values)
    return metrics


def choose_derivative_method(subject: Subject, derivative_methods: Sequence[str] | None = None) -> str:
    """The first derivative method that works for the model, tested on a few cells.

    Raises:
        InputError: If no method works. The message lists why each of them failed.
    """
    values = subject.values(subject.some_cells(TRIAL_CELLS))
    reasons = []
    for derivative_method in DERIVATIVE_METHODS if derivative_methods is None else derivative_methods:
        if derivative_method not in _METHODS:
            raise InputError(
                f"There is no derivative method {derivative_method!r}. Methods: {', '.join(DERIVATIVE_METHODS)}."
            )
        try:
            with _backend(derivative_method):
                if derivative_method != "double vjp" or _double_vjp_is_right(subject, values):
                    _METHODS[derivative_method](subject, values)
                    return derivative_method
                reasons.append(f"{derivative_method}: the model's custom backward pass cannot be differentiated")
        except RuntimeError as error:  # includes NotImplementedError, for operations without a rule in torch
            reasons.append(f"{derivative_method}: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
    raise NotComputable(
        Missing.NOT_DIFFERENTIABLE,
        'No exact derivative with respect to the factors could be computed. Use geometry="finite difference" '
        "(metric_tensor_finite_difference). Tried:\n  " + "\n  ".join(reasons),
    )


class _ModelRaised(RuntimeError):
    """The model's own code raised an error of any type while torch took derivatives of it."""


def _rows(subject: Subject, values: Tensor) -> dict[str, Tensor]:
    """The activations of every layer."""
    try:
        return subject.rows(values)
    except (RecombineError, RuntimeError):
        raise
    except Exception as error:
        raise _ModelRaised(f"{type(error).__name__}: {error}") from error


def gram_of_columns(columns: Real[Tensor, "direction cell unit"]) -> Float[Tensor, "cell direction direction"]:
    """JᵀJ per cell from the columns of J, in float64 on the CPU.

    Very large and very small columns are rescaled first, because their squares overflow or underflow in single
    precision.
    """
    n, cells, _ = columns.shape
    largest = float(columns.abs().nan_to_num().max()) if columns.numel() else 0.0
    if largest > 0 and not SMALL < largest < LARGE:
        scale = 2.0 ** round(math.log2(largest))  # a power of 2, so that only the exponent changes
        return gram_of_columns(columns / scale) * scale**2
    total = torch.zeros(cells, n, n, dtype=torch.float64, device=columns.device)
    for block in columns.split(BLOCK, dim=-1):
        total += torch.bmm(block.transpose(0, 1), block.permute(1, 2, 0)).to(torch.float64)
    return ((total + total.mT) / 2).cpu()


@contextmanager
def _backend(derivative_method: str) -> Iterator[None]:
    """Configure torch's kernels for a derivative method, and restore them afterwards."""
    _load_forward_rules()
    with ExitStack() as stack:
        if derivative_method != "forward":
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        if derivative_method not in ("forward", "forward, attention in math mode"):
            enabled = torch.backends.mkldnn.enabled
            _use_mkldnn(False)
            stack.callback(_use_mkldnn, bool(enabled))
        yield


def _use_mkldnn(enabled: bool) -> None:
    torch.backends.mkldnn.enabled = enabled  # type: ignore[assignment]


@functools.cache
def _load_forward_rules() -> None:
    """Load torch's forward-mode rules once, and suppress its warning about their compilation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("torch._decomp.decompositions_for_jvp")


def _directions(subject: Subject, values: Tensor) -> Float[Tensor, "direction factor"]:
    """A unit vector along each factor that has derivatives."""
    return torch.eye(values.shape[1], dtype=values.dtype, device=values.device)[subject.differentiable]


def _forward(subject: Subject, values: Tensor) -> Found:
    """One pass for all layers and factors: one primal, and one tangent per factor."""
    directions = _directions(subject, values)

    def along(direction: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        return jvp(partial(_rows, subject), (values,), (direction.expand_as(values).contiguous(),))  # type: ignore[return-value]

    with torch.no_grad():
        shared: Any = (None, 0)  # the primal is the same in all directions
        rows, columns = vmap(along, out_dims=shared, randomness="same")(directions)
        return rows, {name: gram_of_columns(column) for name, column in columns.items()}


def _reverse_graph(subject: Subject, values: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    values = values.detach().clone().requires_grad_()
    return values, _rows(subject, values)


def _double_vjp_columns(subject: Subject, values: Tensor) -> tuple[dict[str, Tensor], Tensor, dict[str, Tensor]]:
    """Columns of every layer, of shape (factor, cell, unit), with the graph that they were computed from."""
    with torch.enable_grad():
        values, rows = _reverse_graph(subject, values)
        live = {name: row for name, row in rows.items() if row.requires_grad}
        duals = [torch.zeros_like(row, requires_grad=True) for row in live.values()]
        (pulled,) = torch.autograd.grad(list(live.values()), values, duals, create_graph=True)
        columns: dict[str, list[Tensor]] = {name: [] for name in live}
        directions = _directions(subject, values)
        for direction in directions:
            along = torch.autograd.grad(
                pulled, duals, direction.expand_as(pulled), retain_graph=True, materialize_grads=True
            )
            for name, column in zip(live, along):
                columns[name].append(column.detach())
    dead = {name: row.detach().new_zeros((len(directions), *row.shape)) for name, row in rows.items()}
    return {name: torch.stack(columns[name]) if name in live else dead[name] for name in rows}, values, rows


def _double_vjp(subject: Subject, values: Tensor) -> Found:
    columns, _, rows = _double_vjp_columns(subject, values)
    return _detached(rows), {name: gram_of_columns(column) for name, column in columns.items()}


def _double_vjp_is_right(subject: Subject, values: Tensor) -> bool:
    """Compare with a plain backward pass, because a custom backward detached from the graph silently gives zeros."""
    columns, values, rows = _double_vjp_columns(subject, values)
    live = {name: row for name, row in rows.items() if row.requires_grad}
    tolerance = 1e-6 if values.dtype == torch.float64 else 1e-2
    for name, row in live.items():
        weights = torch.cos(torch.arange(row.numel(), dtype=row.dtype, device=row.device)).reshape(row.shape)
        (pulled,) = torch.autograd.grad(row, values, weights, retain_graph=True)
        pulled = pulled[:, subject.differentiable]
        pushed = (columns[name] * weights).sum(-1).T
        scale = (columns[name] * weights).abs().sum(-1).T + pulled.abs()
        if bool(((pushed - pulled).abs() > tolerance * scale).any()):
            return False
    return True


def _detached(rows: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: row.detach() for name, row in rows.items()}


def _reverse_rows(subject: Subject, values: Tensor) -> Found:
    """One backward pass per unit, for all cells at once."""
    with torch.enable_grad():
        values, rows = _reverse_graph(subject, values)
        metrics = {}
        for name, row in rows.items():
            n = len(subject.differentiable)
            total = torch.zeros(len(row), n, n, dtype=torch.float64, device=row.device)
            for unit in row.unbind(1) if row.requires_grad else ():
                (gradient,) = torch.autograd.grad(unit.sum(), values, retain_graph=True, materialize_grads=True)
                gradient = gradient[:, subject.differentiable].to(torch.float64)
                total += gradient.unsqueeze(2) * gradient.unsqueeze(1)
            metrics[name] = total.cpu()
    return _detached(rows), metrics


_METHODS: dict[str, Callable[[Subject, Tensor], Found]] = {
    "forward": _forward,
    "forward, attention in math mode": _forward,
    "forward, mkldnn off": _forward,
    "double vjp": _double_vjp,
    "reverse rows": _reverse_rows,
}
DERIVATIVE_METHODS: tuple[str, ...] = tuple(_METHODS)
