"""One unit per value."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.encodings.encoding import ENCODINGS, Encoding, unit_distance
from recombine.core.factors import FactorSpace


@ENCODINGS.register("onehot")
class OneHot(Encoding):
    """One unit per value: exactly one-hot on the grid.

    Between grid values the code is interpolated by the cubic convolution (Catmull–Rom) kernel, whose slope at a
    grid value is the central difference of its neighbours' codes. Linear interpolation would have no derivative at
    exactly the grid values, where geometry is measured. Between labels there are no values: a value of a categorical
    factor counts as the nearest label.
    """

    takes_labels = True

    def __init__(self, space: FactorSpace) -> None:
        super().__init__(space)

    def block_size(self, name: str) -> int:
        return self.space.factors[name].size

    def encode_factor(self, name: str, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape unit"]:
        factor = self.space.factors[name]
        d = unit_distance(factor, values)
        if factor.kind == "cyclic" and factor.size < 4:  # the kernel, four steps wide, overlaps itself around the ring
            return torch.stack([_cubic(d + turn * factor.size) for turn in range(-2, 3)]).sum(0)
        return _cubic(d)


def _cubic(distance: Tensor) -> Tensor:
    """The cubic convolution kernel of distances in grid steps."""
    d = distance.abs()
    near = (1.5 * d - 2.5) * d * d + 1
    far = ((-0.5 * d + 2.5) * d - 4) * d + 2
    return torch.where(d <= 1, near, torch.where(d < 2, far, torch.zeros_like(d)))
