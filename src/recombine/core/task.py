"""A task: inputs, targets, and the combinations that are never trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Real
from torch import Tensor

from recombine.core.data_task import EncodingLike, HoldoutLike, as_factors, dataset_of, encoding_of, holdout_of
from recombine.core.datasets import open_dataset
from recombine.core.encodings import Encoding
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.holdouts.data import OwnSplit
from recombine.core.scenes import Images, Scene


class Shapes(NamedTuple):
    """The properties of a task that a decoder depends on."""

    code_size: int
    output_shape: tuple[int, ...]  # (row, column), (channel, row, column) or (n,)
    factor_sizes: tuple[int, ...] = ()  # number of values of each factor


@dataclass(frozen=True)
class Task:
    """A scene to render from an encoding, with some combinations held out.

    Args:
        scene: Factor values → image.
        encoding: Factor values → code.
        holdout: Which combinations are never trained on. The attribute `holdout` of the task is restricted to cells
            that the scene has (`scene.available`).
        allow_unseen: Accept a hold-out that removes single factor values from training.
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
        if isinstance(self.holdout, OwnSplit) and not self.holdout.known:
            object.__setattr__(self, "holdout", self.holdout.of(self.scene.test_cells))
        if self.scene.available is not None:
            named = self.holdout
            object.__setattr__(self, "holdout", named.within(self.scene.available))
            if named.n_ood and not self.holdout.n_ood:
                first = self.space.label(int(named.ood_cells[0]))
                raise InputError(
                    f"All {named.n_ood} held-out cells are unavailable. For example, the scene has no picture of "
                    f"{first}. Hold out cells that have pictures.",
                    "holdout",
                )
        self.holdout.check(allow_unseen=self.allow_unseen)
        self._check_split()

    def _check_split(self) -> None:
        """Raise if cells would be trained on that only the test part of a data set shows."""
        if self.scene.test_cells is not None:
            wrong = np.flatnonzero(self.holdout.id_mask & self.scene.test_cells)
            if len(wrong):
                raise InputError(
                    f"The test pictures of the data set are never trained on, and {len(wrong)} trained cells have no "
                    f"other pictures, such as {self.space.label(int(wrong[0]))}. Hold these cells out "
                    "(holdout.kind=data), or ignore the split of the data set (scene.own_split=false).",
                    "holdout",
                )

    @classmethod
    def from_arrays(
        cls,
        images: Any,
        labels: Any = None,
        *,
        factors: FactorSpace | Mapping[str, Any] | Sequence[str] | None = None,
        holdout: HoldoutLike = None,
        encoding: EncodingLike = "onehot",
        split: Any = None,
        keep: Mapping[str, Any] | None = None,
        channels: Literal["first", "last"] | None = None,
        scale: float | None = None,
        several: Literal["mean", "nearest"] = "mean",
        own_split: bool = True,
        row_0: Literal["top", "bottom"] = "top",
        value_range: Sequence[float] | None = None,
        allow_unseen: bool = False,
    ) -> Task:
        """A task from pictures and their labels.

        Args:
            images: (picture, row, column), with colour channels first or last, or (picture, number): an array, a
                tensor, the path of an .npy file, which is read on demand, or a map-style data set that yields (picture,
                labels).
            labels: (picture, factor), a mapping or data frame factor → labels, or the path of an .npy or .csv file.
            factors: Factor → values, as in `FactorSpace`; or the names of the columns of `labels`; None if the labels
                have names. Values that are not given are those that occur.
            holdout: A hold-out; its configuration; a list of cells [{"colour": "red", "shape": "square"}]; a function
                of the space; an array that is true where held out; None for `split`.
            encoding: An encoding, its kind or configuration, or a function of the space.
            split: The split of the data: for each picture "train" or "test", or true for test pictures. Test pictures
                are never trained on. With holdout=None, the cells that occur only in test pictures are held out.
            keep: Which values of factors to keep, see `recombine.core.datasets.open_dataset`.
            channels, scale: See `recombine.core.datasets.arrays`.
            several: Where a cell has several pictures, whether outputs are compared with their mean or the nearest.
            own_split: False ignores the split and uses all pictures.
            row_0: Whether row 0 of a picture is at its top or bottom.
            value_range: The lowest and the highest value of the outputs, as in (-1, 1). By default (0, 1) for images,
                and for vectors the range of the data.
            allow_unseen: As for the task itself.
        """
        dataset = dataset_of(images, labels, factors, keep, split, channels=channels, scale=scale)
        scene = Images.of(dataset, several=several, own_split=own_split, row_0=row_0, value_range=_numbers(value_range))
        return cls._of(scene, holdout, encoding, allow_unseen)

    @classmethod
    def from_data(
        cls,
        data: str | Path | Mapping[str, Any],
        *,
        factors: FactorSpace | Mapping[str, Any] | None = None,
        holdout: HoldoutLike = None,
        encoding: EncodingLike = "onehot",
        keep: Mapping[str, Any] | None = None,
        several: Literal["mean", "nearest"] = "mean",
        own_split: bool = True,
        row_0: Literal["top", "bottom"] = "top",
        value_range: Sequence[float] | None = None,
        allow_unseen: bool = False,
    ) -> Task:
        """A task from a data set in files: dSprites, Shapes3D, MPI3D, split files, a folder of pictures, NumPy files.

        Args:
            data: The path of the file or folder, or its configuration, such as {"kind": "arrays", "images":
                "images.npy", "labels": "labels.csv"}.
            factors: For layouts that do not define them; by default those that occur in the labels.
            holdout, encoding, keep, several, own_split, row_0, value_range, allow_unseen: As in `from_arrays`.
        """
        described = None if factors is None else as_factors(factors)
        dataset = open_dataset(data, factors=described, keep=keep)
        scene = Images.of(dataset, several=several, own_split=own_split, row_0=row_0, value_range=_numbers(value_range))
        return cls._of(scene, holdout, encoding, allow_unseen)

    @classmethod
    def _of(cls, scene: Scene, holdout: HoldoutLike, encoding: EncodingLike, allow_unseen: bool) -> Task:
        space = scene.space
        if holdout is None and scene.test_cells is None:
            raise InputError(
                "Choose the combinations to hold out: holdout=[{'colour': 'red', 'shape': 'square'}], "
                "holdout={'kind': 'random', 'fraction': 0.2}, or the split of the data set.",
                "holdout",
            )
        return cls(scene, encoding_of(encoding, space), holdout_of(holdout, space), allow_unseen=allow_unseen)

    @property
    def space(self) -> FactorSpace:
        """The factor space of the scene."""
        return self.scene.space

    @property
    def shapes(self) -> Shapes:
        """The sizes of code, image and factors, from which decoders are built."""
        return Shapes(self.encoding.size, self.scene.output_shape, self.space.shape)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one network input, without the batch."""
        return self.scene.output_shape if self.inverse else (self.encoding.size,)

    @property
    def target_shape(self) -> tuple[int, ...]:
        """The shape of one target, without the batch."""
        return (self.encoding.size,) if self.inverse else self.scene.output_shape

    def inputs(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, ...]:
        """The network's inputs for factor values."""
        return self.scene(values, present) if self.inverse else self.encoding(values, present)

    def targets(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, ...]:
        """The network's targets for factor values."""
        return self.encoding(values, present) if self.inverse else self.scene(values, present)


def _numbers(given: Sequence[float] | None) -> list[float] | None:
    return None if given is None else [float(number) for number in given]
