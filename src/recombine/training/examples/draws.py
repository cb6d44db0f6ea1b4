"""Base class of sources from which each seed draws its own examples."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.registry import Count, Share
from recombine.core.task import Task
from recombine.training.examples.source import ExampleSource


class Drawn(ExampleSource):
    """A source from which each seed uses all examples, draws with replacement, or a subset of distinct examples.

    Args:
        task: The task to learn.
        draw: "all": each example once per epoch; "replacement": `samples` examples, drawn once with replacement.
        samples: Number of draws with replacement.
        count: Use this many distinct examples, drawn once; overrides `draw`.
        share: Like `count`, as a share of all examples, rounded.
    """

    noun: ClassVar[str] = "examples"

    def __init__(
        self,
        task: Task,
        draw: Literal["all", "replacement"] = "all",
        samples: Count = 2000,
        count: Annotated[int, Field(ge=0)] | None = None,
        share: Share | None = None,
    ) -> None:
        super().__init__(task)
        self.draw, self.samples, self.count, self.share = draw, samples, count, share

    @property
    def choices(self) -> int:
        """The number of candidates that `count` and `share` refer to."""
        return len(self)

    @property
    def distinct(self) -> int | None:
        """The requested number of distinct examples; None if `draw` decides."""
        return self.count if self.share is None else round(self.share * self.choices)

    def epoch_length(self) -> int:
        if self.distinct is not None:
            return self.distinct
        return self.samples if self.draw == "replacement" else len(self)

    def epoch(self, draws: torch.Generator) -> Int[Tensor, " row"]:
        if self.distinct is not None:
            return torch.randperm(self.choices, generator=draws)[: self.distinct]
        if self.draw == "replacement":
            return torch.randint(len(self), (self.samples,), generator=draws)
        return torch.arange(len(self))

    def check(self) -> None:
        if self.count is not None and self.share is not None:
            raise InputError(f"Give count or share, not both. Got {self.count} and {self.share}.", "share")
        if self.count is not None and self.count > self.choices:
            raise InputError(
                f"count={self.count} is more than the {self.choices} {self.noun} that the hold-out leaves.", "count"
            )
