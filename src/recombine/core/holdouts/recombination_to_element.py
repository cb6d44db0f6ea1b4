"""Recombination to element: a small box of cells that leaves every pair of values in training."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts.conditions import Conditions, all_met, by_position, meeting
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout


@HOLDOUTS.register("recombination_to_element")
def recombination_to_element(space: FactorSpace, element: Conditions) -> Holdout:
    """The cells that meet a condition on each of at least three factors (Montero et al. 2021).

    Every pair of values still occurs together in training if every factor with a condition also has other values, which
    is checked: `covered_order()` is at least 2. A condition is a value, a list of values or an inclusive range.
    """
    met = meeting(space, element)
    proper = [axis for axis, allowed in met.items() if not bool(allowed.all())]
    if len(proper) < 3:
        raise InputError(
            "An element requires conditions on at least three factors, each of which excludes some values, so that "
            f"all pairs of values occur in training. Got {len(proper)} such factors in {sorted(element)}. For fewer "
            "factors, use holdout.kind=cells.",
            "holdout.element",
        )

    def held(positions: Int[Tensor, "*shape factor"]) -> Tensor:
        return all_met(met, positions)

    return Holdout(space, by_position(space, held))
