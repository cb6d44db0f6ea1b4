"""The recipe for the composed decoder."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from recombine.core.registry import Count, Positive, Share
from recombine.training.recipe import RECIPES, Training


@RECIPES.register("composed")
class ComposedRecipe(Training):
    """For the composed decoder: a rate that decays, and the penalty that makes each factor choose what it does."""

    kind: Literal["composed"] = "composed"
    epochs: Count = 100
    steps: Count | None = 2000
    batch: Count = 32
    learning_rate: Positive = 2e-2
    optimizer: dict[str, Any] = Field(default={"kind": "adam"}, validate_default=True)
    schedule: Literal["constant", "cosine"] = "cosine"
    warmup: Share = 0.15
    terms: dict[str, dict[str, Any]] = Field(default={"composition": {}}, validate_default=True)
