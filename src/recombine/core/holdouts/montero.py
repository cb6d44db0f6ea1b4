"""The splits of Montero et al. 2021 (The role of disentanglement in generalisation), by name.

They are kept as grid positions, not as the published thresholds: thresholds that coincide with a grid value, such as
scale > 0.6, would change the counts with the rounding of the values in a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts.conditions import all_met, by_position
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout

DataSet = Literal["dsprites", "shapes3d", "mpi3d"]
Split = Literal["extrapolation", "recombination_to_range", "recombination_to_element"]
SIZES: dict[DataSet, dict[str, int]] = {
    "dsprites": {"shape": 3, "scale": 6, "orientation": 40, "x": 32, "y": 32},
    "shapes3d": {"floor_hue": 10, "wall_hue": 10, "object_hue": 10, "scale": 8, "shape": 4, "orientation": 15},
    "mpi3d": {"object_shape": 6, "horizontal_axis": 40},
}
HELD: dict[tuple[DataSet, Split], Mapping[str, range]] = {
    ("dsprites", "extrapolation"): {"x": range(16, 32)},  # x > 0.5
    ("dsprites", "recombination_to_range"): {"shape": range(1), "x": range(16, 32)},  # square, x > 0.5
    ("dsprites", "recombination_to_element"): {  # ellipse, scale > 0.6, 2π/3 < orientation < 4π/3, x and y > 0.66
        "shape": range(1, 2), "scale": range(2, 6), "orientation": range(14, 26), "x": range(21, 32),
        "y": range(21, 32),
    },
    ("shapes3d", "extrapolation"): {"floor_hue": range(5, 10)},  # ≥ 0.5
    ("shapes3d", "recombination_to_range"): {"shape": range(3, 4), "object_hue": range(5, 10)},  # pill, hue ≥ 0.5
    ("shapes3d", "recombination_to_element"): {  # hues ≥ 0.8, scale ≥ 1.1, cylinder, orientation > 20
        "floor_hue": range(8, 10), "wall_hue": range(8, 10), "object_hue": range(8, 10), "scale": range(5, 8),
        "shape": range(1, 2), "orientation": range(12, 15),
    },
    ("mpi3d", "extrapolation"): {"horizontal_axis": range(21, 40)},  # > 20
    ("mpi3d", "recombination_to_range"): {"object_shape": range(2, 3), "horizontal_axis": range(20)},  # cylinder, < 20
}  # fmt: skip


@HOLDOUTS.register("montero")
def montero(space: FactorSpace, data: DataSet, split: Split) -> Holdout:
    """A published split of dSprites, Shapes3D or MPI3D, whose factors the space must have in full.

    Held out are, of dSprites, 368 640 (extrapolation), 122 880 (recombination to range) and 5 808 (to element) of
    737 280 pictures; of Shapes3D 240 000, 60 000 and 72 of 480 000; of MPI3D 492 480 and 86 400 of 1 036 800.
    Extrapolation removes single values from training and requires allow_unseen. For a part of a data set, write the
    split as `cells`, `recombination_to_range` or `recombination_to_element`.
    """
    held_out = HELD.get((data, split))
    if held_out is None:
        raise InputError(f"There is no published split {split!r} of {data}.", "holdout.split")
    wrong = [
        f"{name} ({SIZES[data][name]} values)"
        for name in held_out
        if name not in space.factors or space.factors[name].size != SIZES[data][name]
    ]
    if wrong:
        raise InputError(
            f"The split {split!r} of {data} requires the factors of the data set: {', '.join(wrong)}. Got {space}. "
            "For a part of the data set, write the split as holdout.kind=cells.",
            "holdout.data",
        )
    met = {}
    for name, chosen in held_out.items():
        met[space.axis(name)] = torch.zeros(SIZES[data][name], dtype=torch.bool)
        met[space.axis(name)][list(chosen)] = True

    def held(positions: Int[Tensor, "*shape factor"]) -> Tensor:
        return all_met(met, positions)

    return Holdout(space, by_position(space, held))
