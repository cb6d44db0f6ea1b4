"""Cases of test.yaml: tasks, trained decoders, and the numbers that judge them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from jaxtyping import Bool, Float
from torch import Tensor, nn

import recombine as rc
from benchmarks.composed.scenes import SCENES

PLAN: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "test.yaml").read_text(encoding="utf-8"))
AT_ONCE = 256  # cells


@dataclass(frozen=True)
class Outcome:
    """How one trained model did on one case.

    Attributes:
        id_error, ood_error: Mean squared errors.
        right: Share of OOD cells that are right, by the criterion of test.yaml.
        right_id: The same of ID cells.
    """

    id_error: float
    ood_error: float
    right: float
    right_id: float

    @property
    def ratio(self) -> float:
        return self.ood_error / self.id_error


def task_of(case: dict[str, Any], *, stripes: bool = False) -> rc.Task:
    """The task of a case; with stripes, of a bump whose factors may be absent."""
    name = case["scene"]
    space, pictures = SCENES[name]()
    holdout = rc.holdouts.mask(space, held_out(space, case["held"]))
    if stripes:
        sigma = {"bump_28": 1.0, "bump_24": 1.3, "inverted_bump_20": 1.2, "inverted_bump_28": 1.0}[name]
        scene = rc.scenes.Bump(space, sigma=sigma, inverted=name.startswith("inverted"))
        return rc.Task(scene, rc.encodings.OneHot(space), holdout)
    labels = np.stack(np.unravel_index(np.arange(len(space)), space.shape), axis=1)
    encoding = case.get("encoding", "onehot")
    return rc.Task.from_arrays(
        pictures, labels, factors=space, holdout=holdout, encoding=encoding, channels="first", allow_unseen=True
    )


def held_out(space: rc.FactorSpace, held: dict[str, list[int]] | list[dict[str, list[int]]]) -> Bool[np.ndarray, "..."]:
    """True where all factors of a box are between its bounds, in the space's shape."""
    at = np.indices(space.shape)
    boxes = held if isinstance(held, list) else [held]
    masks = []
    for box in boxes:
        inside = [(at[space.axis(name)] >= low) & (at[space.axis(name)] <= high) for name, (low, high) in box.items()]
        masks.append(np.logical_and.reduce(inside))
    return np.logical_or.reduce(masks)


def outputs_of(model: nn.Module, task: rc.Task, cells: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs and targets of cells."""
    parts: list[tuple[Tensor, Tensor]] = []
    with torch.no_grad():
        for some in cells.split(AT_ONCE):
            values = task.space.values(some)
            parts.append((model(task.inputs(values)), task.targets(values)))
    outputs, targets = (torch.cat(own) for own in zip(*parts))
    return outputs, targets


def right(outputs: Tensor, targets: Tensor, mean: Tensor) -> Bool[Tensor, " cell"]:
    """Which cells are right: with the mean picture taken off, the direction and the size of the difference agree."""
    ours, truth = ((images - mean).flatten(1) for images in (outputs, targets))
    energy = truth.square().sum(1)
    cosine = (ours * truth).sum(1).square() / (ours.square().sum(1) * energy).clamp(min=1e-30)
    error = (ours - truth).square().sum(1) / energy
    return (1 - cosine < PLAN["right"]["one_minus_cos2"]) & (error < PLAN["right"]["relative_error"])


def judged(model: nn.Module, task: rc.Task) -> Outcome:
    known, truth = outputs_of(model, task, task.holdout.id_cells)
    unseen, unseen_truth = outputs_of(model, task, task.holdout.ood_cells)
    mean = truth.mean(0)
    return Outcome(
        id_error=_error(known, truth),
        ood_error=_error(unseen, unseen_truth),
        right=float(right(unseen, unseen_truth, mean).float().mean()),
        right_id=float(right(known, truth, mean).float().mean()),
    )


def _error(outputs: Float[Tensor, "cell ..."], targets: Float[Tensor, "cell ..."]) -> float:
    return float((outputs - targets).square().mean())


def width_for(kind: str, depth: int, task: rc.Task, parameters: int) -> int:
    """The width of a rival whose number of parameters is nearest to the one given."""

    def count(width: int) -> int:
        model = rc.decoders.DECODERS.build({"kind": kind, "depth": depth, "width": width}, task.shapes)
        return sum(p.numel() for p in model.parameters())

    step = 4 if kind == "pixel_mlp" else 1  # sines and cosines of two axes
    return min(range(2 * step, 129, step), key=lambda width: abs(math.log(count(width) / parameters)))
