"""A different code for each factor."""

from __future__ import annotations

from typing import Annotated, Any

from jaxtyping import Float
from torch import Tensor

from recombine.core.encodings.encoding import ENCODINGS, Encoding
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.registry import member_of

Part = Annotated[dict[str, Any], member_of(ENCODINGS)]


@ENCODINGS.register("mixed")
class Mixed(Encoding):
    """A different code for each factor.

    Args:
        space: The factor space.
        factors: Factor name → configuration of its code, for example {"x": {"kind": "bump"}, "y": {"kind": "ramp"}}.
    """

    takes_labels = True

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
