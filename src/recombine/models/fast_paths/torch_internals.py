"""The private names of torch that are used here. If torch lacks one that a fast path needs, no fast path is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _lacking(*_: Any) -> Any:
    raise AssertionError("a fast path was used although this torch lacks what it needs")


any_global_hook: Callable[[], Any] = _lacking
relu_backward: Callable[..., Any] = _lacking
relu_backward_into: Callable[..., Any] = _lacking
convolution_backward: Callable[..., Any] = _lacking

try:
    any_global_hook = nn.modules.module._has_any_global_hook
    relu_backward = torch.ops.aten.threshold_backward
    relu_backward_into = torch.ops.aten.threshold_backward.grad_input
    convolution_backward = torch.ops.aten.convolution_backward
    AVAILABLE = all(hasattr(nn.Module(), name) for name in HOOKS)
except AttributeError:  # an older torch; plain autograd computes the same
    AVAILABLE = False


def is_changed(module: nn.Module) -> bool:
    """Whether a module is hooked, compiled, or has a `forward` that differs from its class's."""
    hooked = any(getattr(module, name) for name in HOOKS)
    return hooked or "forward" in vars(module) or getattr(module, "_compiled_call_impl", None) is not None


def is_transformed(tensor: Tensor) -> bool:
    """Whether a transform of `torch.func` is being applied to a tensor. True if this torch does not tell."""
    functorch = getattr(torch._C, "_functorch", None)
    return getattr(functorch, "is_functorch_wrapped_tensor", lambda _: True)(tensor)
