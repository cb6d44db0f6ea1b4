"""Encodings: factor values → code. Each factor drives its own block of input units, so every code is disentangled.

    encode = Bump(space, width=1.0)
    encode(values)                       # (…, factor) → (…, code)
    encode(values, present)              # absent factors (present = False) get the code for "not specified"

All codes are differentiable in the factor values. Units sit at grid positions: unit i of a population code
prefers the factor's i-th grid value, and a cyclic factor's units stand in a ring.

How an absent factor is encoded: population and positional codes use an all-zero block, which no value has. A ramp
needs a presence flag for that (`flag=True`): each factor then has two units, (value, 1) when present and (0, 0)
when absent. The flagless ramp, the paper's, refuses absent factors.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Annotated, Any

import torch
from jaxtyping import Bool, Float, Real
from pydantic import AfterValidator
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import Factor, FactorSpace
from recombine.core.registry import Count, Family, Positive, Width

ENCODINGS = Family("encoding", (FactorSpace,))
MOST_CHECKED = 1024  # values of a factor whose codes are compared
Part = Annotated[dict[str, Any], AfterValidator(lambda part: ENCODINGS.validate(part).model_dump())]


class Encoding(ABC):
    """Maps factor values to codes; subclasses say how long one factor's block is and what stands in it."""

    config: dict[str, Any] = {}  # noqa: RUF012 (replaced, never changed; empty for encodings that are not registered)

    def __init__(self, space: FactorSpace) -> None:
        self.space = space

    @abstractmethod
    def block_size(self, name: str) -> int:
        """Number of units of one factor."""

    @abstractmethod
    def encode_factor(self, name: str, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape unit"]:
        """The block of one present factor."""

    def absent(self, name: str, block: Float[Tensor, "*shape unit"]) -> Float[Tensor, "*shape unit"]:
        """The block that says "not specified", in the shape of a present one."""
        return torch.zeros_like(block)

    @property
    def blocks(self) -> dict[str, slice]:
        """Which units of the code belong to which factor."""
        blocks, start = {}, 0
        for name in self.space.names:
            end = start + self.block_size(name)
            blocks[name] = slice(start, end)
            start = end
        return blocks

    @property
    def size(self) -> int:
        """Number of units in all."""
        return sum(self.block_size(name) for name in self.space.names)

    def __call__(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, "*shape code"]:
        values = self.space.checked(values)
        parts = []
        for axis, name in enumerate(self.space.names):
            block = self.encode_factor(name, values[..., axis])
            if present is not None:
                here = present[..., axis, None]
                if not bool(here.all()):
                    block = torch.where(here, block, self.absent(name, block))
            parts.append(block)
        return torch.cat(parts, dim=-1)

    def decode(self, code: Float[Tensor, "*shape code"]) -> Float[Tensor, "*shape factor"]:
        """The grid values whose blocks lie nearest to the code's (squared distance), factor by factor."""
        columns = []
        for name, factor in self.space.factors.items():
            grid = factor.grid().to(code)
            known = self.encode_factor(name, grid)
            block = code[..., self.blocks[name]]
            columns.append(grid[(block.unsqueeze(-2) - known).square().sum(-1).argmin(-1)])
        return torch.stack(columns, dim=-1)

    def check(self) -> None:
        """Raise unless the grid values of each factor (of a large one the first) have finite, different codes."""
        for name, factor in self.space.factors.items():
            values = factor.grid()[: max(2, min(MOST_CHECKED, MOST_CHECKED**2 // max(self.block_size(name), 1)))]
            problem = _problem(values.tolist(), self.encode_factor(name, values))
            if problem:
                raise InputError(
                    f"The encoding {self._described} does not suit factor {name!r}: {problem}. "
                    "Choose other settings of the encoding, or other values of the factor."
                )

    @property
    def _described(self) -> str:
        settings = ", ".join(f"{k}={v}" for k, v in self.config.items() if k != "kind")
        return f"{type(self).__name__}({settings})"

    def __repr__(self) -> str:
        return f"{self._described} of {self.space}, {self.size} units"


def _problem(values: list[float], codes: Float[Tensor, "value unit"]) -> str | None:
    """Which value has no finite code, or which two have the same one."""
    for value, finite in zip(values, codes.isfinite().all(-1).tolist()):
        if not finite:
            return f"the code of its value {value:g} is not finite"
    first: dict[int, float] = {}
    for value, code in zip(values, codes.unique(dim=0, return_inverse=True)[1].tolist()):
        if code in first:
            return (
                f"its values {first[code]:g} and {value:g} have the same code, so that no decoder can tell them apart"
            )
        first[code] = value
    return None


def _unit_distance(factor: Factor, values: Tensor) -> Tensor:
    """Distance in grid steps from each unit's preferred value, (…, unit)."""
    preferred = factor.grid().to(values)
    return factor.difference(preferred, values.unsqueeze(-1)) / factor.step


@ENCODINGS.register("onehot")
class OneHot(Encoding):
    """One unit per value: exactly one-hot on the grid.

    Between grid values the code is interpolated by the cubic convolution (Catmull–Rom) kernel, whose slope at a
    grid value is the central difference of its neighbours' codes. The linear interpolation is no alternative: it
    has no derivative at exactly the grid values, where geometry is measured.
    """

    def __init__(self, space: FactorSpace) -> None:
        super().__init__(space)

    def block_size(self, name: str) -> int:
        return self.space.factors[name].size

    def encode_factor(self, name: str, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape unit"]:
        factor = self.space.factors[name]
        d = _unit_distance(factor, values)
        if factor.kind == "cyclic" and factor.size < 4:  # the kernel, four steps wide, meets itself around the ring
            return torch.stack([_cubic(d + turn * factor.size) for turn in range(-2, 3)]).sum(0)
        return _cubic(d)


def _cubic(distance: Tensor) -> Tensor:
    """The cubic convolution kernel of distances in grid steps."""
    d = distance.abs()
    near = (1.5 * d - 2.5) * d * d + 1
    far = ((-0.5 * d + 2.5) * d - 4) * d + 2
    return torch.where(d <= 1, near, torch.where(d < 2, far, torch.zeros_like(d)))


@ENCODINGS.register("bump")
class Bump(Encoding):
    """Population code: unit i responds with exp(−(i − x)² / 2w²) (Liang et al. 2025, bump encoding).

    Args:
        space: The factor space.
        width: w, in grid steps.
    """

    def __init__(self, space: FactorSpace, width: Width = 1.0) -> None:
        super().__init__(space)
        self.width = width

    def block_size(self, name: str) -> int:
        return self.space.factors[name].size

    def encode_factor(self, name: str, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape unit"]:
        return torch.exp(-_unit_distance(self.space.factors[name], values).square() / (2 * self.width**2))


@ENCODINGS.register("positional")
class Positional(Encoding):
    """Sines and cosines of each factor at geometric frequencies.

    Frequencies are base^(−k/K) radians per grid step for k = 0 … K−1. A cyclic factor uses whole harmonics
    1 … K of its period instead, so that K = 1 gives (sin θ, cos θ).

    Args:
        space: The factor space.
        frequencies: K; a factor has 2K units.
        base: Ratio between the highest frequency and the one that would follow the lowest.
    """

    def __init__(self, space: FactorSpace, frequencies: Count = 14, base: Positive = 10_000.0) -> None:
        super().__init__(space)
        self.frequencies = frequencies
        self.base = base

    def block_size(self, name: str) -> int:
        return 2 * self.frequencies

    def encode_factor(self, name: str, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape unit"]:
        factor = self.space.factors[name]
        k = torch.arange(self.frequencies, dtype=values.dtype, device=values.device)
        rates = 2 * math.pi * (k + 1) / factor.size if factor.kind == "cyclic" else self.base ** (-k / self.frequencies)
        phase = factor.position(values).unsqueeze(-1) * rates
        return torch.cat([phase.sin(), phase.cos()], dim=-1)


@ENCODINGS.register("ramp")
class Ramp(Encoding):
    """Rate code: one unit per factor holding the coordinate.

    Args:
        space: The factor space.
        normalized: Divide by N − 1, so that the grid spans [0, 1]; otherwise the coordinate counts grid steps.
        flag: Add a second unit per factor that is 1 when the factor is present (see the module docstring).
    """

    def __init__(self, space: FactorSpace, normalized: bool = True, flag: bool = False) -> None:
        super().__init__(space)
        self.normalized = normalized
        self.flag = flag

    def block_size(self, name: str) -> int:
        return 2 if self.flag else 1

    def encode_factor(self, name: str, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape unit"]:
        factor = self.space.factors[name]
        level = factor.position(values) / (max(factor.size - 1, 1) if self.normalized else 1)
        return torch.stack([level, torch.ones_like(level)] if self.flag else [level], dim=-1)

    def absent(self, name: str, block: Float[Tensor, "*shape unit"]) -> Float[Tensor, "*shape unit"]:
        if not self.flag:
            raise InputError(
                "The ramp code without a presence flag has no code for an absent factor (0 is a coordinate). "
                "Use Ramp(space, flag=True), on the command line encoding.flag=true, to train on stripes."
            )
        return super().absent(name, block)


@ENCODINGS.register("mixed")
class Mixed(Encoding):
    """A different code for each factor.

    Args:
        space: The factor space.
        factors: Factor name → configuration of its code, for example {"x": {"kind": "bump"}, "y": {"kind": "ramp"}}.
    """

    def __init__(self, space: FactorSpace, factors: dict[str, Part]) -> None:
        super().__init__(space)
        if set(factors) != set(space.names):
            raise InputError(f"A mixed code needs one entry per factor {list(space.names)}. Got {sorted(factors)}.")
        self._parts: dict[str, Encoding] = {
            name: ENCODINGS.build(factors[name], FactorSpace(**{name: factor}))
            for name, factor in space.factors.items()
        }

    def block_size(self, name: str) -> int:
        return self._parts[name].size

    def encode_factor(self, name: str, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape unit"]:
        return self._parts[name].encode_factor(name, values)

    def absent(self, name: str, block: Float[Tensor, "*shape unit"]) -> Float[Tensor, "*shape unit"]:
        return self._parts[name].absent(name, block)
