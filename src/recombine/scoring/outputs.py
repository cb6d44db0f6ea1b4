"""Outputs of a model and the truth for chosen cells, as arrays and as a figure."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from matplotlib.figure import Figure
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.images import tone_of
from recombine.core.task import Task
from recombine.models.activations import precision
from recombine.models.adapted import outputs_for
from recombine.models.evaluation_mode import evaluation_mode
from recombine.plotting.images import show_output
from recombine.plotting.style import new_figure


def render(model: nn.Module, task: Task, cells: Int[Tensor, " cell"]) -> tuple[np.ndarray, np.ndarray]:
    """Truth and output images of cells."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    values = task.space.values(cells).to(device, precision(model))
    with evaluation_mode(model), torch.no_grad():
        outputs = outputs_for(model, task, task.inputs(values))
    return task.targets(values).cpu().numpy(), outputs.cpu().numpy()


def samples(model: nn.Module, task: Task, cells: Int[Tensor, " cell"]) -> Figure:
    """Draw the truth above the output for chosen, available cells; held-out cells have a red frame."""
    if task.inverse:
        raise InputError(
            "Samples show images, but this task maps images to codes. Use `scores.plot_landscape()` instead."
        )
    gone = [task.space.label(int(cell)) for cell in cells if not task.holdout.available.ravel()[int(cell)]]
    if gone:
        raise InputError(f"Unavailable cells have no picture. Got {'; '.join(gone)}.", "cells")
    truth, outputs = render(model, task, cells)
    held = task.holdout.ood_mask.ravel()[cells.numpy()]
    tone = tone_of(truth, task.scene.value_range)
    figure = new_figure(1.2 * len(cells) + 0.6, 2.9)
    axes = figure.subplots(2, len(cells), squeeze=False)
    for column in range(len(cells)):
        style: dict[str, Any] = {"held_out": bool(held[column]), "row_0": task.scene.row_0, "tone": tone}
        show_output(axes[0, column], truth[column], task.space.label(cells[column]), **style)
        show_output(axes[1, column], outputs[column], **style)
    axes[0, 0].set_ylabel("truth")
    axes[1, 0].set_ylabel("output")
    return figure
