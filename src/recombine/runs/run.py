"""A trained model that one can go on with: save, diagnose, report."""

from __future__ import annotations

from dataclasses import dataclass

from recombine.training.result import TrainingResult


@dataclass(repr=False)
class Run(TrainingResult):
    """A trained model and how it came about, see TrainingResult."""

    @classmethod
    def of(cls, result: TrainingResult) -> Run:
        return cls(**vars(result))
