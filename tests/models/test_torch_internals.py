"""A torch that lacks a private name can still be used: fast paths are then not taken."""

import importlib.util

import pytest
import torch
from torch import nn

from recombine.models.fast_paths import torch_internals


def loaded_again():
    spec = importlib.util.spec_from_file_location("another_torch_internals", torch_internals.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.quick
def test_a_torch_without_a_private_name_has_no_fast_paths(monkeypatch):
    monkeypatch.delattr(nn.modules.module, "_has_any_global_hook", raising=False)
    found = loaded_again()
    assert found.AVAILABLE is False
    for name in ("relu_backward", "relu_backward_into", "convolution_backward"):
        with pytest.raises(AssertionError):
            getattr(found, name)()


@pytest.mark.quick
def test_transformed_tensors_are_told_from_others(monkeypatch):
    found = []

    def record(x):
        found.append(torch_internals.is_transformed(x))
        return x

    torch.func.vmap(record)(torch.zeros(2, 3))
    record(torch.zeros(3))
    assert found == [True, False]
    monkeypatch.delattr(torch._C._functorch, "is_functorch_wrapped_tensor")
    record(torch.zeros(3))
    assert found[-1] is True
