"""The interface of optimizer factories."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import nn

from recombine.core.registry import Family

OPTIMIZERS = Family("optimizer")

Decay = Annotated[float, Field(ge=0, lt=1)]  # decay rate of a running average


class OptimizerFactory(ABC):
    """Creates a torch optimizer for parameters. The recipe sets its learning rate at every step.

    Attributes:
        elementwise: Whether the update of each number depends only on its own gradients. Seeds that are stacked into
            one program then do not mix.
    """

    config: dict[str, Any]
    kind: ClassVar[str]
    elementwise: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, parameters: Sequence[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer: ...


def can_fuse(parameters: Sequence[nn.Parameter]) -> bool:
    """Whether torch has a fused step for the device of these parameters."""
    return all(parameter.device.type in ("cpu", "cuda") for parameter in parameters)
