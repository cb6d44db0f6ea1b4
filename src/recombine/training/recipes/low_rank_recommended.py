"""A recipe for the factor-rendered decoder that improves on the paper's."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from recombine.core.registry import Count, Positive
from recombine.training.recipe import RECIPES, Training


@RECIPES.register("low_rank_recommended")
class LowRankRecommended(Training):
    """For the factor-rendered decoder: only the variance penalty, and a decaying learning rate.

    With decoder.padding=replicate, decoder.activation=gelu and decoder.width=4, the OOD error is 1.6 times the ID error
    (median over eight seeds). docs/forced-rendering.md has the numbers, and
    docs/measurements/forced-rendering.md describes the alternatives that were tried.
    """

    kind: Literal["low_rank_recommended"] = "low_rank_recommended"
    epochs: Count = 400
    batch: Count = 32
    learning_rate: Positive = 1e-3
    optimizer: dict[str, Any] = Field(default={"kind": "adamw", "weight_decay": 1e-4}, validate_default=True)
    schedule: Literal["constant", "cosine"] = "cosine"
    terms: dict[str, dict[str, Any]] = Field(default={"variance": {"weight": 0.01}}, validate_default=True)
