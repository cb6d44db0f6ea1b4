"""A torch that lacks a private name can still be used: fast paths are then not taken."""

import importlib.util

import pytest
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
