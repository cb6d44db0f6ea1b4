"""Checks with two examples, before training, that a model fits a task."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.task import Task
from recombine.models.activations import precision
from recombine.models.adapted import not_a_tensor
from recombine.models.decoders import Decoder
from recombine.models.evaluation_mode import evaluation_mode
from recombine.training.losses import Loss


def check_module(model: object) -> None:
    """Raise unless the model is a module."""
    if not isinstance(model, nn.Module):
        raise InputError(
            f"Only an nn.Module can be trained. Got {type(model).__name__}. Pass the module itself. With "
            "recombine.adapt, you can set the arguments of the module and select a part of its output.",
            "model",
        )


def check_fit(model: nn.Module, task: Task, loss: Loss, device: torch.device) -> None:
    """Raise if the model does not accept the task's inputs, or if its outputs do not fit the targets or the loss."""
    if isinstance(model, Decoder) and model.inverse != task.inverse:
        raise InputError(
            f"{type(model).__name__} maps {'images to codes' if model.inverse else 'codes to images'}, but the task "
            f"does not. Build the task with Task(…, inverse={model.inverse})."
        )
    cells = task.holdout.id_cells[:1].expand(2)
    values = task.space.values(cells).to(device, precision(model))
    try:
        with evaluation_mode(model), torch.no_grad():
            outputs = model(task.inputs(values))
    except (RuntimeError, TypeError) as error:
        shape = ", ".join(map(str, task.input_shape))
        raise InputError(
            f"The model does not accept inputs of shape (batch, {shape}): {error}. If it takes labels, noise or "
            "several arguments, see recombine.adapt."
        ) from error
    if not isinstance(outputs, Tensor):
        raise InputError(f"{not_a_tensor(outputs)} Write recombine.adapt(model, output=…).", "model")
    expected = (2, *task.target_shape)
    if tuple(outputs.shape) != expected:
        got = tuple(outputs.shape)
        raise InputError(f"For two inputs, the model must return outputs of shape {expected}. Got {got}.")
    loss.check(outputs, task.targets(values))
