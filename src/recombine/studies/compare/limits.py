"""What a sum over factors can reach at best on each scene and split, computed from the data without training.

No additive decoder fits the trained images better than the least-squares sum Σ_k f_k(z_k). Its share of correct unseen
cells tells scenes on which such a decoder cannot succeed from those on which it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.core.errors import InputError, NotComputable
from recombine.core.holdouts import HOLDOUTS, Holdout
from recombine.core.scenes import Scene
from recombine.diagnostics.diagnose import diagnose
from recombine.studies.compare.planning import built_scene
from recombine.studies.compare.slots import slots_of
from recombine.studies.compare.splits import SPLITS
from recombine.studies.compare.suite import Suite

MOST_NUMBERS = 2 * 10**8  # numbers in all images of a scene, in double precision; larger scenes have no limit of sums


def limits(suite: Suite, facts: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row per scene and split: facts of the split, structure of the scene, and the limit of sums over factors.

    The sum has one term per object if the scene declares objects, and one per factor otherwise. Splits that do not fit
    a scene are left out.

    Args:
        suite: The suite.
        facts: Facts of every scene and split, from `split_facts`.
    """
    found = []
    for (name, split), known in facts.items():
        if not known:
            continue
        scene = built_scene(suite.scenes[name])
        holdout = HOLDOUTS.build(SPLITS[split](scene), scene.space)
        structure = scene.structure
        about = {
            "composition": None if structure is None else str(structure.composition),
            "cp_rank": None if structure is None else structure.cp_rank,
        }
        found.append({"scene": name, "split": split, **known, **about, **_of_sums(scene, holdout)})
    return found


def _of_sums(scene: Scene, holdout: Holdout) -> dict[str, float | None]:
    """Share of correct unseen cells of the best sum, and its OOD error over the variance of the targets."""
    if len(scene.space) * math.prod(scene.output_shape) > MOST_NUMBERS:
        return {"sum_right": None, "sum_ood_error": None}
    slots = slots_of(scene) or [[axis] for axis in range(len(scene.space.shape))]
    try:
        verdict = diagnose(
            best_sum(scene, holdout, slots), scene.space, "labels", holdout, target=scene, parts=("superposition",)
        ).verdict
    except (InputError, NotComputable):  # for example, no image differs from the others
        return {"sum_right": None, "sum_ood_error": None}
    return {"sum_right": verdict.right, "sum_ood_error": verdict.ood_error}


def best_sum(
    scene: Scene, holdout: Holdout, slots: Sequence[Sequence[int]]
) -> Callable[[Int[Tensor, "cell factor"]], Float[Tensor, "cell ..."]]:
    """The least-squares fit of Σ_s f_s(z_s) to the trained images: a function from labels to images.

    Args:
        scene: The scene.
        holdout: The cells that are not trained on.
        slots: The factors of each term.
    """
    shape = scene.space.shape
    sizes = [int(np.prod([shape[axis] for axis in slot])) for slot in slots]

    def codes(labels: Int[Tensor, "cell factor"]) -> Float[Tensor, "cell code"]:
        columns = []
        for slot, size in zip(slots, sizes):
            index = torch.zeros(len(labels), dtype=torch.long)
            for axis in slot:
                index = index * shape[axis] + labels[:, axis].long()
            columns.append(torch.nn.functional.one_hot(index, size))
        return torch.cat(columns, 1).double()

    held = holdout if scene.available is None else holdout.within(scene.available)
    cells = held.id_cells
    targets = scene(scene.space.values(cells)).double()
    labels = torch.from_numpy(np.stack(np.unravel_index(cells.numpy(), shape), 1))
    weights = torch.linalg.lstsq(codes(labels), targets.flatten(1), driver="gelsd").solution
    return lambda given: (codes(given) @ weights).float().unflatten(1, targets.shape[1:])
