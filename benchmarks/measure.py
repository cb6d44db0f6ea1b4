"""How things are timed: interleaved repeats and medians, the matrix-product rate, the facts of the machine."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: What is measured.
        value: The ratio.
        target: The least it should be; None for lines that only inform.
        raw: What the ratio was made of.
    """

    name: str
    value: float
    target: float | None = None
    raw: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.value >= self.target

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "target": self.target, "met": self.met, "raw": self.raw}

    def __str__(self) -> str:
        target = "" if self.target is None else f"≥ {self.target:g}"
        met = {True: "yes", False: "NO", None: ""}[self.met]
        return f"{self.name:<68}{self.value:>9.2f}  {target:>7}  {met:<4}{_brief(self.raw)}"


def _brief(raw: Mapping[str, Any]) -> str:
    return "  ".join(f"{k}={v:.4g}" for k, v in raw.items() if isinstance(v, float))


def interleaved(repeats: int, **subjects: Callable[[], float]) -> dict[str, list[float]]:
    """Measure each subject in turn, several times over, so that a change in the machine's load meets all of them."""
    measured: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(repeats):
        for name, subject in subjects.items():
            measured[name].append(subject())
    return measured


def medians(measured: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: median(values) for name, values in measured.items()}


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def gemm_gflops(rows: int, inner: int, columns: int) -> float:
    """Rate of the float32 product (rows × inner) · (inner × columns)."""
    left, right, out = torch.randn(rows, inner), torch.randn(inner, columns), torch.empty(rows, columns)
    torch.mm(left, right, out=out)
    return 2e-9 * rows * inner * columns / seconds(lambda: torch.mm(left, right, out=out))


def convolution_gemm_gflops(batch: int, width: int, side: int) -> float:
    """Rate over the three products of a kernel-3 layer: outputs, gradient of its inputs, gradient of its weights."""
    pixels, taps = batch * side**2, 9 * width
    rates = [gemm_gflops(pixels, taps, width), gemm_gflops(pixels, width, taps), gemm_gflops(taps, pixels, width)]
    return len(rates) / sum(1 / rate for rate in rates)


def peak_gb() -> float:
    """The most memory this process has had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9


def machine() -> dict[str, Any]:
    """What the numbers depend on besides the code."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    facts = {key.strip(): value.strip() for key, value in facts.items()}
    flags = facts.get("flags", "").split()
    return {
        "cpu": facts.get("model name", platform.processor()),
        "cores": os.cpu_count(),
        "avx2": "avx2" in flags,
        "avx512": "avx512f" in flags,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
        "environment": {k: v for k, v in os.environ.items() if k.startswith(("OMP_", "MKL_", "ONEDNN_", "ATEN_CPU_"))},
    }
