"""How to train: every setting that changes a run's result, and the named recipes."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, cast

from pydantic import Field, field_validator

from recombine.core.errors import InputError, Problem
from recombine.core.registry import Count, Family, NonNegative, Parameters, Positive, Share
from recombine.training.loss_terms.penalties import TERMS
from recombine.training.objective import LossTerm


class Training(Parameters):
    """Settings common to all recipes.

    Attributes:
        epochs: Passes over the training examples.
        steps: Optimizer steps; overrides epochs.
        batch: Examples per step. Batches run on across epoch ends, so all have this size.
        sampling: "replacement": `samples` ID cells are drawn once, with replacement, and passed over in each epoch,
            as in the paper; "once": each ID cell once per epoch.
        samples: Number of cells drawn for sampling = "replacement".
        bumps: Train on this many ID cells, drawn once without replacement, instead of all of them or of `samples`.
        bump_share: The same as a share of all ID cells, rounded to whole cells.
        stripes: Also train on all single-factor scenes (for a bump: the stripes).
        stripe_repeats: How often each stripe occurs in an epoch.
        stripes_first: Share of the steps, at the start, that see stripes only; then come stripes and bumps together.
        learning_rate, weight_decay, beta2: AdamW's.
        schedule: Learning rate "constant", or falling along a "cosine" that reaches 0 one step after the last.
        warmup: Share of the steps over which the learning rate rises linearly at the start.
        stop_below: Stop once the ID error (estimated on `evaluate_cells` cells) is at or below this.
        stop_patience: Stop after this many evaluations without a new lowest ID error.
        evaluate_every: Steps between evaluations of ID and OOD error.
        evaluate_cells: At most so many ID cells, and so many OOD cells, drawn once, serve for evaluations.
        terms: Loss terms added to the mean squared error, by kind: {"entropy": {"weight": 0.1}}.
        allow_unseen: Accept hold-outs that take single factor values out of training.
    """

    epochs: Count
    steps: Count | None = None
    batch: Count
    sampling: Literal["replacement", "once"]
    samples: Count = 2000
    bumps: Annotated[int, Field(ge=0)] | None = None
    bump_share: Share | None = None
    stripes: bool = False
    stripe_repeats: Count = 1
    stripes_first: Share = 0.0
    learning_rate: Positive
    weight_decay: NonNegative = 0.01
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.999
    schedule: Literal["constant", "cosine"]
    warmup: Share = 0.0
    stop_below: Positive | None = None
    stop_patience: Count | None = None
    evaluate_every: Count = 50
    evaluate_cells: Count = 128
    terms: dict[str, dict[str, Any]] = Field(default={})
    allow_unseen: bool = False

    @field_validator("terms")
    @classmethod
    def _check_terms(cls, terms: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        checked: dict[str, dict[str, Any]] = {}
        problems: list[Problem] = []
        for kind, given in terms.items():
            try:
                if given.get("kind", kind) != kind:
                    raise InputError(f"The term {kind!r} is of that kind. Got kind {given['kind']!r}; leave it out.")
                checked[kind] = TERMS.validate({**given, "kind": kind}).model_dump(exclude={"kind"})
            except InputError as error:
                problems += [Problem(f"{kind}.{key}".rstrip("."), told) for key, told in error.problems]
        if problems:
            raise InputError.join(problems)
        return checked

    def loss_terms(self) -> list[LossTerm]:
        return [TERMS.build({"kind": kind, **given}) for kind, given in self.terms.items()]

    def total_steps(self, examples: int) -> int:
        """Steps of a whole run when an epoch has this many examples."""
        return self.steps if self.steps is not None else math.ceil(self.epochs * examples / self.batch)

    def learning_rate_at(self, step: int, total: int) -> float:
        """The learning rate of step 0 … total − 1."""
        rising = self.warmup * total
        factor = min(1.0, (step + 1) / rising) if rising >= 1 else 1.0
        if self.schedule == "cosine":
            factor *= 0.5 * (1 + math.cos(math.pi * step / total))
        return self.learning_rate * factor


class Paper(Training):
    """The original experiments': 2000 ID samples drawn with replacement, 50 epochs, AdamW at 1e-3, batch 32.

    They trained MLPs for 20 epochs: set epochs=20 for those.
    """

    kind: Literal["paper"] = "paper"
    epochs: Count = 50
    batch: Count = 32
    sampling: Literal["replacement", "once"] = "replacement"
    learning_rate: Positive = 1e-3
    schedule: Literal["constant", "cosine"] = "constant"


class Recommended(Training):
    """Reaches the same ID error sooner: small batches, each ID cell once per epoch, high rate with cosine decay."""

    kind: Literal["recommended"] = "recommended"
    epochs: Count = 16
    batch: Count = 8
    sampling: Literal["replacement", "once"] = "once"
    learning_rate: Positive = 2.5e-3
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.98
    schedule: Literal["constant", "cosine"] = "cosine"
    warmup: Share = 0.15


class LowRank(Training):
    """The paper's for the factor-rendered decoder: every ID cell once per epoch, 1000 epochs, both penalties."""

    kind: Literal["low_rank"] = "low_rank"
    epochs: Count = 1000
    batch: Count = 32
    sampling: Literal["replacement", "once"] = "once"
    learning_rate: Positive = 1e-3
    weight_decay: NonNegative = 1e-4
    schedule: Literal["constant", "cosine"] = "constant"
    terms: dict[str, dict[str, Any]] = Field(
        default={"entropy": {"weight": 0.1}, "variance": {"weight": 0.01}}, validate_default=True
    )


class LowRankRecommended(Training):
    """For the factor-rendered decoder, beyond the paper: the variance penalty alone, and a rate that decays.

    With decoder.padding=replicate, decoder.activation=gelu and decoder.width=4 unseen pairs come out as right as
    trained ones (docs/forced-rendering.md has the numbers, docs/log.md what was tried).
    """

    kind: Literal["low_rank_recommended"] = "low_rank_recommended"
    epochs: Count = 400
    batch: Count = 32
    sampling: Literal["replacement", "once"] = "once"
    learning_rate: Positive = 1e-3
    weight_decay: NonNegative = 1e-4
    schedule: Literal["constant", "cosine"] = "cosine"
    terms: dict[str, dict[str, Any]] = Field(default={"variance": {"weight": 0.01}}, validate_default=True)


RECIPES = Family("training")
RECIPES.models = {
    "paper": Paper,
    "recommended": Recommended,
    "low_rank": LowRank,
    "low_rank_recommended": LowRankRecommended,
}


def recipe(kind: str = "paper", **settings: Any) -> Training:
    """A recipe by name with some settings changed: recipe("paper", epochs=20)."""
    return cast("Training", RECIPES.validate({"kind": kind, **settings}))
