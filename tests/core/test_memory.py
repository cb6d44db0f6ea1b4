"""Errors that say that memory ran out."""

from __future__ import annotations

import pytest
import torch

from recombine.core.memory import ran_out_of_memory


def test_torch_says_that_memory_ran_out() -> None:
    for shape in [(10**15,), (2**62, 2**62)]:  # refused at once: nothing is allocated
        with pytest.raises(RuntimeError) as caught:
            torch.empty(shape)
        assert ran_out_of_memory(caught.value)
    assert ran_out_of_memory(torch.OutOfMemoryError())
    assert ran_out_of_memory(MemoryError())


def test_other_errors_do_not() -> None:
    assert not ran_out_of_memory(RuntimeError("allocation of roles"))
    assert not ran_out_of_memory(ValueError("DefaultCPUAllocator"))
