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
    """For the composed decoder: a decaying learning rate, a penalty that makes each factor choose one kind of
    operator, and a final fit of exact operators.

    Attributes:
        settle: Iterations of the final fit, see `recombine.training.settle`; 0 skips it.
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
