"""The interface of encodings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Real
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import Factor, FactorSpace
from recombine.core.registry import Family

ENCODINGS = Family("encoding", (FactorSpace,))
MOST_CHECKED = 1024  # maximum number of values whose codes are compared


class Encoding(ABC):
    """Maps factor values to codes. Subclasses define the length of one factor's block and its content.

    Attributes:
        takes_labels: Whether the code supports categorical factors. Codes that interpret values as numbers do not,
            because labels have no order and no distance.
    """

    takes_labels: ClassVar[bool] = False
    config: dict[str, Any] = {}  # noqa: RUF012 (replaced, never changed; empty for encodings that are not registered)

    def __init__(self, space: FactorSpace) -> None:
        self.space = space
        labelled = [name for name, factor in space.factors.items() if factor.categorical]
        if labelled and not self.takes_labels:
            raise InputError(
                f"A {getattr(self, 'kind', type(self).__name__)} code interprets values as numbers, but those of "
                f"factor {labelled[0]!r} are labels. Use encoding.kind=onehot, or encoding.kind=mixed with "
                f'{{"{labelled[0]}": {{"kind": "onehot"}}, …}}.',
                "encoding.kind",
            )

    @abstractmethod
    def block_size(self, name: str) -> int:
        """Number of units of one factor."""

    @abstractmethod
    def encode_factor(self, name: str, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape unit"]:
        """The block of one present factor."""

    def absent(self, name: str, block: Float[Tensor, "*shape unit"]) -> Float[Tensor, "*shape unit"]:
        """The block that means "not specified", in the shape of a present one."""
        return torch.zeros_like(block)

    @property
    def blocks(self) -> dict[str, slice]:
        """The units of the code that belong to each factor."""
        blocks, start = {}, 0
        for name in self.space.names:
            end = start + self.block_size(name)
            blocks[name] = slice(start, end)
            start = end
        return blocks

    @property
    def size(self) -> int:
        """Total number of units."""
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
        """The grid values whose blocks are closest to the code's (squared distance), factor by factor."""
        columns = []
        for name, factor in self.space.factors.items():
            grid = factor.grid().to(code)
            known = self.encode_factor(name, grid)
            block = code[..., self.blocks[name]]
            columns.append(grid[(block.unsqueeze(-2) - known).square().sum(-1).argmin(-1)])
        return torch.stack(columns, dim=-1)

    def check(self) -> None:
        """Raise unless the grid values of each factor (or the first ones of many) have finite, distinct codes."""
        for name, factor in self.space.factors.items():
            values = factor.grid()[: max(2, min(MOST_CHECKED, MOST_CHECKED**2 // max(self.block_size(name), 1)))]
            labels = [factor.label(value) for value in values.tolist()]
            problem = _problem(labels, self.encode_factor(name, values))
            if problem:
                raise InputError(
                    f"The encoding {self._described} does not work for factor {name!r}: {problem}. Choose other "
                    "settings of the encoding, or other values of the factor."
                )

    @property
    def _described(self) -> str:
        settings = ", ".join(f"{k}={v}" for k, v in self.config.items() if k != "kind")
        return f"{type(self).__name__}({settings})"

    def __repr__(self) -> str:
        return f"{self._described} of {self.space}, {self.size} units"


def _problem(labels: list[str], codes: Float[Tensor, "value unit"]) -> str | None:
    """Describe a value without a finite code, or two values with the same code."""
    for label, finite in zip(labels, codes.isfinite().all(-1).tolist()):
        if not finite:
            return f"the code of its value {label} is not finite"
    first: dict[int, str] = {}
    for label, code in zip(labels, codes.unique(dim=0, return_inverse=True)[1].tolist()):
        if code in first:
            return f"its values {first[code]} and {label} have the same code, so no decoder can distinguish them"
        first[code] = label
    return None


def unit_distance(factor: Factor, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape unit"]:
    """Distance in grid steps from each unit's preferred value."""
    return factor.steps(factor.grid().to(values), values.unsqueeze(-1))
