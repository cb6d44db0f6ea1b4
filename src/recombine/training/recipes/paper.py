"""The recipe of the original experiments."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from recombine.core.registry import Count, Positive
from recombine.training.recipe import RECIPES, Training


@RECIPES.register("paper")
class Paper(Training):
    """The original experiments: 2000 ID samples drawn with replacement, 50 epochs, AdamW at 1e-3, batch 32.

    MLPs were trained for 20 epochs: set epochs=20 for those.
    """

    kind: Literal["paper"] = "paper"
    epochs: Count = 50
    batch: Count = 32
    examples: dict[str, dict[str, Any] | None] = Field(
        default={"cells": {"draw": "replacement", "samples": 2000}}, validate_default=True
    )
    learning_rate: Positive = 1e-3
