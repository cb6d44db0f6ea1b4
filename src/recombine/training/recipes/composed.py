"""The recipe for the composed decoder."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from torch import Tensor, nn

from recombine.core.registry import Count, Positive, Share
from recombine.training.recipe import RECIPES, Training
from recombine.training.settle import settle


@RECIPES.register("composed")
class ComposedRecipe(Training):
    """For the composed decoder: a rate that decays, the penalty that makes each factor choose what it does, and a fit
    of the exact operators at the end.

    Attributes:
        settle: Iterations of that fit, see `recombine.training.settle`; 0 leaves the model as the steps made it.
    """

    kind: Literal["composed"] = "composed"
    epochs: Count = 100
    steps: Count | None = 1200
    batch: Count = 32
    learning_rate: Positive = 1e-2
    optimizer: dict[str, Any] = Field(default={"kind": "adam"}, validate_default=True)
    schedule: Literal["constant", "cosine"] = "cosine"
    warmup: Share = 0.15
    terms: dict[str, dict[str, Any]] = Field(default={"composition": {}}, validate_default=True)
    settle: Annotated[int, Field(ge=0)] = 100

    @property
    def finishes(self) -> bool:
        return self.settle > 0 and self.loss["kind"] == "mse"

    def finish(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
        settle(model, inputs, targets, iterations=self.settle)
