"""Conjunction scores: whether a decoder adds single-factor scenes or composes them.

    found = conjunction(model, task)
    found.additive, found.composed            # one number per held-out cell each
    found.to_pandas()

A decoder trained on single-factor scenes alone draws unseen combinations as the *additive conjunction*, the sum of the
stripes. After training on a few combinations, it draws the scene itself, their product (Liang et al. 2025, Sec. 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.scenes import Scene
from recombine.core.task import Task
from recombine.models.evaluation_mode import evaluation_mode
from recombine.scoring.scores import CHUNK

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Conjunction:
    """Similarity of outputs to the sum of their single-factor scenes and to the true scene.

    Attributes:
        cells: The scored cells.
        values: Their factor values.
        names: The factors.
        additive: Cosine of each output with the sum of the single-factor scenes, in [−1, 1].
        composed: Cosine of each output with the true scene (for a bump the bump score), in [−1, 1].
        baseline: Cosine of the true scene with the sum of the single-factor scenes.

    The cosine ignores brightness and is NaN for a blank output. The two scores are not exclusive: an output equal to
    the true scene has an additive score of `baseline`, and an exact sum has a composed score of `baseline`.
    """

    cells: Int[np.ndarray, " cell"]
    values: Float[np.ndarray, "cell factor"]
    names: tuple[str, ...]
    additive: Float[np.ndarray, " cell"]
    composed: Float[np.ndarray, " cell"]
    baseline: Float[np.ndarray, " cell"]

    def to_pandas(self) -> pandas.DataFrame:
        """One row per cell."""
        import pandas

        factors = {name: self.values[:, axis] for axis, name in enumerate(self.names)}
        scores = {"additive": self.additive, "composed": self.composed, "baseline": self.baseline}
        return pandas.DataFrame({"cell": self.cells, **factors, **scores})


def conjunction(
    model: nn.Module, task: Task, cells: Int[Tensor, " cell"] | Sequence[int] | None = None, *, chunk: int = CHUNK
) -> Conjunction:
    """Score a decoder on the held-out cells, or on the given cells.

    Args:
        model: Any module that maps codes to images.
        task: Its task.
        cells: The cells; by default all OOD cells.
        chunk: Number of cells per forward pass.
    """
    if task.inverse:
        raise InputError(
            "Conjunction scores are defined for tasks whose outputs are images. Got an inverse task (image → code)."
        )
    chosen = task.holdout.ood_cells if cells is None else task.space.checked_cells(cells)
    weights = [t for t in [*model.parameters(), *model.buffers()] if t.is_floating_point()]
    like = weights[0] if weights else torch.empty(0)
    parts: list[Tensor] = []
    with evaluation_mode(model), torch.no_grad():
        for some in chosen.split(chunk):
            values = task.space.values(some).to(like)
            parts.append(torch.stack(conjunction_scores(task.scene, values, model(task.inputs(values)))))
    scores = torch.cat(parts, dim=1) if parts else torch.empty(3, 0, dtype=torch.double)
    additive, composed, baseline = scores.numpy()
    values = task.space.values(chosen).double().numpy()
    return Conjunction(chosen.numpy(), values, tuple(task.space.names), additive, composed, baseline)


def conjunction_scores(
    scene: Scene, values: Float[Tensor, "cell factor"], outputs: Float[Tensor, "cell ..."]
) -> tuple[Float[Tensor, " cell"], Float[Tensor, " cell"], Float[Tensor, " cell"]]:
    """The scores `additive`, `composed` and `baseline` of outputs for the given factor values. See `Conjunction`."""
    output = foreground(scene, outputs)
    truth, added = foreground(scene, scene(values)), sum_of_single_factors(scene, values)
    cosines = (_cosine(output, added), _cosine(output, truth), _cosine(truth, added))
    additive, composed, baseline = (found.double().cpu() for found in cosines)
    return additive, composed, baseline


def sum_of_single_factors(scene: Scene, values: Float[Tensor, "cell factor"]) -> Float[Tensor, "cell row column"]:
    """Sum over the factors of the scene with this factor alone.

    Objects are bright on a dark background, regardless of the scene's polarity. A factor without a position, such as a
    size, gives a uniform image and adds a constant.
    """
    total = torch.zeros(len(values), *scene.output_shape, dtype=values.dtype, device=values.device)
    for axis in range(values.shape[-1]):
        present = torch.zeros_like(values, dtype=torch.bool)
        present[:, axis] = True
        total = total + foreground(scene, scene(values, present))
    return total


def foreground(scene: Scene, images: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Convert images to bright objects on a dark background."""
    return 1 - images if scene.inverted else images


def _cosine(a: Tensor, b: Tensor) -> Float[Tensor, " cell"]:
    a, b = a.flatten(1), b.flatten(1)
    blank = (a == 0).all(1) | (b == 0).all(1)
    return F.cosine_similarity(a, b, dim=1).masked_fill(blank, torch.nan)
