"""The paper's recipe for the factor-rendered decoder."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from recombine.core.registry import Count, Positive
from recombine.training.recipe import RECIPES, Training


@RECIPES.register("low_rank")
class LowRank(Training):
    """The paper's recipe for the factor-rendered decoder: every ID cell once per epoch, 1000 epochs, both penalties."""

    kind: Literal["low_rank"] = "low_rank"
    epochs: Count = 1000
    batch: Count = 32
    learning_rate: Positive = 1e-3
    optimizer: dict[str, Any] = Field(default={"kind": "adamw", "weight_decay": 1e-4}, validate_default=True)
    terms: dict[str, dict[str, Any]] = Field(
        default={"entropy": {"weight": 0.1}, "variance": {"weight": 0.01}}, validate_default=True
    )
