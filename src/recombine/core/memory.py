"""Freed memory: kept in the process during training, returned to the system after work on large arrays."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from pathlib import Path

import torch

CPU_ALLOCATOR = ("DefaultCPUAllocator", "Storage size calculation overflowed")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h


@functools.cache
def keep_freed_memory() -> None:
    """Tell glibc to reuse large blocks.

    Activations of a few MB are otherwise mapped and unmapped again in every layer of every step, and the page
    faults cost 5–20 % of a convolutional training step. Elsewhere than on glibc this does nothing.
    """
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_MMAP_THRESHOLD, 2**30)
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def give_back_freed_memory() -> None:
    """Return freed memory to the system: after work on large blocks the C library may hold on to more than a gigabyte.

    Elsewhere than on glibc this does nothing.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out.

    Python raises MemoryError and torch's GPU allocators raise torch.OutOfMemoryError. Its processor allocator raises a
    plain RuntimeError without a type of its own, so here, and only here, the text decides.
    """
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return type(error) is RuntimeError and any(sign in str(error) for sign in CPU_ALLOCATOR)


def available_memory() -> int | None:
    """Bytes that can be allocated without swapping; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
    return found.get("MemAvailable")
