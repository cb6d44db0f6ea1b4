"""A context in which models are in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluation_mode(*models: nn.Module) -> Iterator[None]:
    """Put models into evaluation mode and restore the mode of every submodule afterwards, also after an exception.

    Gradients are not affected; add `torch.no_grad()` if they are not needed.
    """
    before = {module: module.training for model in models for module in model.modules()}
    try:
        for model in models:
            model.eval()
        yield
    finally:
        for model in models:
            model.train(before[model])  # for models whose `train` does more than set a flag
        for module, mode in before.items():
            module.training = mode
