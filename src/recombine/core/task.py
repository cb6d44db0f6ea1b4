"""A task: what goes in, what should come out, and which combinations are never trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Bool, Float, Real
from torch import Tensor

from recombine.core.encodings import Encoding
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.scenes import Scene


class Shapes(NamedTuple):
    """All a decoder needs to know of a task."""

    code_size: int
    output_shape: tuple[int, ...]  # (row, column), (channel, row, column) or (n,)
    factor_sizes: tuple[int, ...] = ()  # number of values of each factor


@dataclass(frozen=True)
class Task:
    """A scene to render from an encoding, with some combinations held out.

    Args:
        scene: Factor values → image.
        encoding: Factor values → code.
        holdout: Which combinations are never trained on. The task's own `holdout` is the one given, within the cells
            that the scene has (`scene.available`).
        allow_unseen: Accept a hold-out that takes single factor values out of training.
        inverse: Learn image → code (the encoder experiment) instead of code → image.
    """

    scene: Scene
    encoding: Encoding
    holdout: Holdout
    allow_unseen: bool = False
    inverse: bool = False

    def __post_init__(self) -> None:
        for name, expected in (("scene", Scene), ("encoding", Encoding), ("holdout", Holdout)):
            if not isinstance(getattr(self, name), expected):
                raise InputError(
                    f"A task's {name} must be of type {expected.__name__}. Got {getattr(self, name)!r} instead."
                )
        for name in ("encoding", "holdout"):
            other = getattr(self, name).space
            if other != self.space:
                raise InputError(
                    f"Scene, encoding and hold-out must share one factor space. Got {self.space} for the scene and "
                    f"{other} for the {name}."
                )
        if self.scene.available is not None:
            object.__setattr__(self, "holdout", self.holdout.within(self.scene.available))
        self.holdout.check(allow_unseen=self.allow_unseen)

    @property
    def space(self) -> FactorSpace:
        return self.scene.space

    @property
    def shapes(self) -> Shapes:
        return Shapes(self.encoding.size, self.scene.output_shape, self.space.shape)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.scene.output_shape if self.inverse else (self.encoding.size,)

    @property
    def target_shape(self) -> tuple[int, ...]:
        return (self.encoding.size,) if self.inverse else self.scene.output_shape

    def inputs(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, ...]:
        """What the network is given for factor values."""
        return self.scene(values, present) if self.inverse else self.encoding(values, present)

    def targets(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, ...]:
        """What the network should answer."""
        return self.encoding(values, present) if self.inverse else self.scene(values, present)
