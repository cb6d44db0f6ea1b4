"""Training settings: everything that affects the result of a run. The named recipes are in `recipes/`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, cast

from pydantic import Field, field_validator
from torch import Tensor, nn

from recombine.core.errors import InputError, Problem
from recombine.core.registry import Count, Family, Parameters, Positive, Share
from recombine.training.examples.source import checked
from recombine.training.loss_terms.term import TERMS, LossTerm
from recombine.training.losses.loss import LOSSES, Loss
from recombine.training.optimizers.optimizer import OPTIMIZERS, OptimizerFactory

RECIPES = Family("training")


class Training(Parameters):
    """Settings common to all recipes.

    Attributes:
        epochs: Passes over the training examples.
        steps: Optimizer steps; overrides epochs.
        batch: Examples per step. Batches continue across epoch ends, so all have this size.
        examples: The training examples: maps the name of each source to its settings, on top of the recipe's own
            sources. The `kind` of a source defaults to its name; all sources have `repeats`, `weight`, `start` and
            `stop` (`recombine.training.examples.Placement`). None removes a source of the recipe: {"cells": {"count":
            10}, "single_factor": {}}.
        learning_rate: Learning rate of the optimizer, before the schedule.
        optimizer: The optimizer's kind and settings: {"kind": "adamw", "weight_decay": 0.01}.
        schedule: "constant" learning rate, or "cosine" decay that reaches 0 one step after the last.
        warmup: Share of the steps over which the learning rate rises linearly at the start.
        loss: The loss between outputs and targets, by kind and settings: {"kind": "mse"}.
        terms: Loss terms added to it, by kind: {"entropy": {"weight": 0.1}}.
        stop_below: Stop once the ID error (estimated on `evaluate_cells` cells) is at or below this.
        stop_patience: Stop after this many evaluations without a new lowest ID error.
        evaluate_every: Steps between evaluations of ID and OOD error.
        evaluate_cells: Maximum number of ID cells, and of OOD cells, for evaluations; drawn once.
        allow_unseen: Accept hold-outs that remove single factor values from training.
    """

    epochs: Count
    steps: Count | None = None
    batch: Count
    examples: dict[str, dict[str, Any] | None] = Field(default={"cells": {}}, validate_default=True)
    learning_rate: Positive
    optimizer: dict[str, Any] = Field(default={"kind": "adamw"}, validate_default=True)
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: Share = 0.0
    loss: dict[str, Any] = Field(default={"kind": "mse"}, validate_default=True)
    terms: dict[str, dict[str, Any]] = Field(default={}, validate_default=True)
    stop_below: Positive | None = None
    stop_patience: Count | None = None
    evaluate_every: Count = 50
    evaluate_cells: Count = 128
    allow_unseen: bool = False

    @field_validator("examples")
    @classmethod
    def _check_examples(cls, given: dict[str, dict[str, Any] | None]) -> dict[str, dict[str, Any] | None]:
        """Canonical sources by name, so that different spellings are equal; None only where it removes a source."""
        usual = cls.model_fields["examples"].default
        found: dict[str, dict[str, Any] | None] = {}
        problems: list[Problem] = []
        for name in sorted({*usual, *given}):
            own = given.get(name, {})
            if own is None:
                found |= {name: None} if name in usual else {}
                continue
            try:
                found[name] = checked(name, onto({"kind": name, **(usual.get(name) or {})}, own))
            except InputError as error:
                problems += error.problems
        if problems:
            raise InputError.join(problems)
        return found

    @field_validator("optimizer")
    @classmethod
    def _check_optimizer(cls, given: dict[str, Any]) -> dict[str, Any]:
        return OPTIMIZERS.validate(onto(cls.model_fields["optimizer"].default, given)).model_dump()

    @field_validator("loss")
    @classmethod
    def _check_loss(cls, given: dict[str, Any]) -> dict[str, Any]:
        return LOSSES.validate(onto(cls.model_fields["loss"].default, given)).model_dump()

    @field_validator("terms")
    @classmethod
    def _check_terms(cls, terms: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        checked: dict[str, dict[str, Any]] = {}
        problems: list[Problem] = []
        for kind, given in terms.items():
            try:
                if given.get("kind", kind) != kind:
                    raise InputError(
                        f"The name of the term {kind!r} is its kind. Got kind {given['kind']!r}. Omit the kind."
                    )
                checked[kind] = TERMS.validate({**given, "kind": kind}).model_dump(exclude={"kind"})
            except InputError as error:
                problems += [Problem(f"{kind}.{key}".rstrip("."), told) for key, told in error.problems]
        if problems:
            raise InputError.join(problems)
        return checked

    def loss_terms(self) -> list[LossTerm]:
        """Build the loss terms of the recipe."""
        return [TERMS.build({"kind": kind, **given}) for kind, given in self.terms.items()]

    def loss_function(self) -> Loss:
        """Build the loss of the recipe."""
        return LOSSES.build(self.loss)

    def optimizer_factory(self) -> OptimizerFactory:
        """Build the factory that creates the optimizer."""
        return OPTIMIZERS.build(self.optimizer)

    def total_steps(self, examples: int) -> int:
        """Steps of a whole run when an epoch has this many examples."""
        return self.steps if self.steps is not None else math.ceil(self.epochs * examples / self.batch)

    def finish(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
        """Modify a model after its last step. Called only if `finishes` is true; most recipes do nothing.

        Args:
            inputs, targets: Inputs and targets of many trained examples, but not necessarily all.
        """

    @property
    def finishes(self) -> bool:
        """Whether `finish` does anything."""
        return False

    def learning_rate_at(self, step: int, total: int) -> float:
        """The learning rate of step 0 … total − 1."""
        rising = self.warmup * total
        factor = min(1.0, (step + 1) / rising) if rising >= 1 else 1.0
        if self.schedule == "cosine":
            factor *= 0.5 * (1 + math.cos(math.pi * step / total))
        return self.learning_rate * factor


def onto(usual: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge settings into the defaults. A different kind starts from its own defaults."""
    return dict(given) if given.get("kind", usual["kind"]) != usual["kind"] else {**usual, **given}


def recipe(kind: str = "paper", **settings: Any) -> Training:
    """A named recipe with some settings changed: recipe("paper", epochs=20)."""
    return cast("Training", RECIPES.validate({"kind": kind, **settings}))
