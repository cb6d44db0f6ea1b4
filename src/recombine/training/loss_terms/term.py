"""The interface of loss terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.registry import Family

TERMS = Family("loss term")

RECORDED = ("step", "learning_rate", "loss", "id_mse", "ood_mse")  # reserved columns of the history


class Batch(NamedTuple):
    """The data available to a loss term."""

    inputs: Tensor
    targets: Tensor
    outputs: Tensor
    progress: float  # step / total steps, in [0, 1): for schedules


@runtime_checkable
class LossTerm(Protocol):
    """A term added to the loss: (model, batch) → scalar. It applies its own weight and schedule.

    A term must read the model's parameters through the model it is handed. Its `name` labels its logged value.
    """

    name: str

    def __call__(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]: ...


def check_terms(terms: Sequence[object], loss: str = "mse") -> None:
    """Raise if a term has no unique name under which its value can be recorded.

    Args:
        terms: The terms.
        loss: Name of the loss that the terms are added to.
    """
    seen = set()
    for term in terms:
        name = getattr(term, "name", None)
        if not isinstance(name, str) or not name:
            raise InputError(f"A loss term needs a name under which its value is recorded. {term!r} has none.")
        if name in (*RECORDED, loss):
            raise InputError(f"{name!r} is already a column of the history. Give the loss term another name.")
        if name in seen:
            raise InputError(f"Two loss terms are named {name!r}. Give one of them another name.")
        seen.add(name)
