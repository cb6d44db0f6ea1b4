"""The interface of example sources, and the settings that all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.core.errors import InputError, Problem
from recombine.core.registry import Count, Family, Parameters, Positive, Share, validate
from recombine.core.task import Task

EXAMPLES = Family("example source", (Task,))


class Placement(Parameters):
    """How often, how strongly and when the examples of a source are trained on.

    Attributes:
        repeats: How often each example occurs in an epoch.
        weight: Factor of the loss of each example.
        start, stop: The range of steps in which these examples are used, as shares of all steps.
    """

    repeats: Count = 1
    weight: Positive = 1.0
    start: Share = 0.0
    stop: Share = 1.0


class ExampleSource(ABC):
    """An indexed set of examples: inputs and targets for the rows 0 … len − 1.

    A source returns either the factor values of its rows (`factors`), from which the task computes inputs and targets,
    or inputs and targets directly (`examples`).

        @EXAMPLES.register("diagonal")
        class Diagonal(ExampleSource):
            def __init__(self, task: Task, offset: Count = 1) -> None:
                super().__init__(task)
                ...

    Args:
        task: The task to learn.
    """

    config: dict[str, Any]
    kind: ClassVar[str]

    def __init__(self, task: Task) -> None:
        self.task = task

    @abstractmethod
    def __len__(self) -> int:
        """Number of distinct examples."""

    def factors(
        self, rows: Int[Tensor, " row"]
    ) -> tuple[Float[Tensor, "row factor"], Bool[Tensor, "row factor"] | None]:
        """Factor values of rows, and which factors are present (None: all)."""
        raise NotImplementedError(f"{type(self).__name__} must define factors or examples.")

    def examples(
        self, rows: Int[Tensor, " row"], device: torch.device, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "row ..."], Float[Tensor, "row ..."]]:
        """Inputs and targets of rows."""
        values, present = self.factors(rows)
        values = values.to(device, dtype)
        present = None if present is None else present.to(device)
        return self.task.inputs(values, present), self.task.targets(values, present)

    def epoch_length(self) -> int:
        """Number of rows that `epoch` returns."""
        return len(self)

    def epoch(self, draws: torch.Generator) -> Int[Tensor, " row"]:
        """The rows that one seed uses in every epoch. Random ones are drawn from `draws`."""
        return torch.arange(len(self))

    def check(self) -> None:
        """Raise InputError, with the setting as its key, if the task cannot provide these examples. Must be cheap."""
        return


def checked(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical settings of a source and of its placement. The kind defaults to the name."""
    own = {"kind": name, **{key: value for key, value in given.items() if key not in Placement.model_fields}}
    shared = {key: value for key, value in given.items() if key in Placement.model_fields}
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    try:
        found |= EXAMPLES.validate(own, f"{name}.", list(Placement.model_fields)).model_dump()
    except InputError as error:
        problems += error.problems
    try:
        found |= validate(Placement, shared, f"example source {own['kind']!r}", f"{name}.").model_dump()
    except InputError as error:
        problems += error.problems
    if not problems and found["start"] >= found["stop"]:
        told = f"The source {name!r} must start before it stops. Got start={found['start']} and stop={found['stop']}."
        problems.append(Problem(f"{name}.start", told))
    if problems:
        raise InputError.join(problems)
    return found
