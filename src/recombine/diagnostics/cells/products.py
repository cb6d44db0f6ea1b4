"""Inner products of outputs, from which every explanation by other outputs can be computed.

Outputs are taken relative to the mean trained output μ. *Flat* means b·μ + c for any b and c. The flat part is removed
where images are added, because the sum of two images has twice the background.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from recombine.diagnostics.numerics.grids import BLOCK, mean_row

SMALL_OUTPUT = 16  # numbers per output, below which no constant is taken out


@dataclass(frozen=True, eq=False)
class Products:
    """Inner products of the outputs o' = o − μ of some cells.

    Attributes:
        mean: μ.
        flat: An orthonormal basis of b·μ + c.
        gram: ⟨o'_i, o'_j⟩.
        along: ⟨o'_i, flat_k⟩.
        blank: ‖o_i − the nearest blank output‖², see `blank_energy`.
    """

    mean: Float[Tensor, " number"]
    flat: Float[Tensor, "number direction"]
    gram: Float[Tensor, "cell cell"]
    along: Float[Tensor, "cell direction"]
    blank: Float[Tensor, " cell"]

    @property
    def energy(self) -> Float[Tensor, " cell"]:
        """‖o'‖²."""
        return self.gram.diagonal()

    @property
    def raised(self) -> Float[Tensor, "cell cell"]:
        """Inner products without the flat parts."""
        return self.gram - self.along @ self.along.T


def products(
    rows: Shaped[Tensor, "grid number"], trained: Int[Tensor, " trained"], cells: Int[Tensor, " cell"]
) -> Products:
    """Accumulate the inner products of some cells' outputs, a block of numbers at a time."""
    mean = mean_row(lambda some: rows[some], trained, rows.shape[1])
    flat = _flat_directions(mean)
    count = len(cells)
    gram = torch.zeros(count, count, dtype=torch.float64)
    along = torch.zeros(count, flat.shape[1], dtype=torch.float64)
    total, squares = torch.zeros(count, dtype=torch.float64), torch.zeros(count, dtype=torch.float64)
    step = max(1, BLOCK // max(1, count))
    for start in range(0, rows.shape[1], step):
        here = slice(start, start + step)
        block = rows[:, here][cells].double()
        total += block.sum(1)
        squares += block.square().sum(1)
        block -= mean[here]
        gram.addmm_(block, block.T)
        along.addmm_(block, flat[here])
    return Products(mean, flat, gram, along, _from_blank(total, squares, rows.shape[1]))


def blank_energy(outputs: Shaped[Tensor, "cell number"]) -> Float[Tensor, " cell"]:
    """Squared distance from the nearest blank output: a constant image, or zero for outputs of few numbers, in which
    equal numbers are no blank."""
    wide = outputs.double()
    return _from_blank(wide.sum(1), wide.square().sum(1), outputs.shape[1])


def _from_blank(total: Tensor, squares: Tensor, numbers: int) -> Tensor:
    return squares if numbers < SMALL_OUTPUT else (squares - total.square() / numbers).clamp_min(0)


def _flat_directions(mean: Float[Tensor, " number"]) -> Float[Tensor, "number direction"]:
    """An orthonormal basis of the mean output and, unless outputs are small, a constant."""
    found: list[Tensor] = []
    constant = torch.ones_like(mean)
    for vector in [mean, constant] if len(mean) >= SMALL_OUTPUT else [mean]:
        rest = vector.clone()
        for direction in found:
            rest -= (rest @ direction) * direction
        if float(rest.norm()) > 1e-9 * max(1e-300, float(vector.norm())):
            found.append(rest / rest.norm())
    return torch.stack(found, dim=1) if found else mean.new_zeros(len(mean), 0)
