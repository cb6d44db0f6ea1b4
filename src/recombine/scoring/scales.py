"""Checks whether truth and outputs have the same brightness scale: up to 255, or up to 1."""

from __future__ import annotations

from jaxtyping import Shaped
from torch import Tensor

from recombine.core.errors import InputError

BYTES = (100.0, 255.5)  # where the largest number of a picture in bytes lies
UNIT = (-2.0, 2.0)  # where all numbers of a picture between 0 and 1, or −1 and 1, lie, with what a model may be off
LOOKED_AT = 256  # cells


def check_scale(truth: Shaped[Tensor, "cell ..."], outputs: Shaped[Tensor, "cell ..."]) -> None:
    """Raise if one goes up to 255 and the other to 1, because errors would then only reflect the scale."""
    if not truth.numel() or not outputs.numel():
        return
    numbers = {"truth": truth[:LOOKED_AT], "output": outputs[:LOOKED_AT]}
    spans = {name: (float(n.min()), float(n.max())) for name, n in numbers.items()}
    for one, other in (("truth", "output"), ("output", "truth")):
        (low, high), (least, most) = spans[one], spans[other]
        if BYTES[0] <= high <= BYTES[1] and low > -1 and UNIT[0] <= least <= most <= UNIT[1]:  # false for NaN
            divide = "the target" if one == "truth" else "the model's output"
            raise InputError(
                f"The {one} goes up to {high:g}, the {other} to {most:.3g}, so their brightness scales differ. Divide "
                f"{divide} by 255.",
                "target",
            )
