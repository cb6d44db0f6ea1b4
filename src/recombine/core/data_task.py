"""Building tasks from data: scene, hold-out and encoding from arrays, files or configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from recombine.core.datasets.dataset import Dataset, assembled, open_dataset
from recombine.core.datasets.files import DataFile, DataFiles
from recombine.core.datasets.memory import ROLE, source_of
from recombine.core.encodings import ENCODINGS, Encoding
from recombine.core.errors import InputError
from recombine.core.factors import Factor, FactorSpace
from recombine.core.holdouts import HOLDOUTS, Holdout, mask

HoldoutLike = Holdout | Mapping[str, Any] | Sequence[Mapping[str, Any]] | Callable[[FactorSpace], Holdout] | Any
EncodingLike = Encoding | str | Mapping[str, Any] | Callable[[FactorSpace], Encoding]


def dataset_of(images: Any, labels: Any, factors: Any, keep: Any, split: Any, **layout: Any) -> Dataset:
    """A data set from arrays, tensors, a map-style data set, or paths of files."""
    names = None if factors is None or isinstance(factors, FactorSpace | Mapping) else [str(name) for name in factors]
    described = None if factors is None or names is not None else as_factors(factors)
    if isinstance(images, str | Path):
        paths = {"images": images, "labels": labels, "split": split}
        wrong = [name for name, path in paths.items() if path is not None and not isinstance(path, str | Path)]
        if wrong:
            raise InputError(
                f"The pictures are given as a file, so {' and '.join(wrong)} must be a file as well. Save them with "
                f"np.save, or pass the pictures as an array: np.load({str(images)!r}, mmap_mode='r').",
                wrong[0],
            )
        given = {name: str(path) for name, path in paths.items() if path is not None}
        config = {"kind": "arrays", **given, "names": names, **layout}
        return open_dataset(config, factors=described, keep=keep)
    source, sha256 = source_of(images, labels, names=names, split=split, **layout)
    files = DataFiles()
    files.opened[ROLE] = DataFile(Path(), sha256, 0)
    dataset = assembled(source, described, keep)
    dataset.config, dataset.opened = {"kind": "memory"}, files
    return dataset


def as_factors(factors: Any) -> dict[str, Factor]:
    """The factors of a space or of a mapping name → values."""
    if not isinstance(factors, FactorSpace | Mapping):
        raise InputError(
            "The factors of a file must be a FactorSpace or a mapping name → values. Got "
            f"{type(factors).__name__}. Names alone belong to the data: data={{'kind': 'arrays', …, 'names': […]}}.",
            "factors",
        )
    return dict((factors if isinstance(factors, FactorSpace) else FactorSpace(**factors)).factors)


def holdout_of(given: HoldoutLike, space: FactorSpace) -> Holdout:
    """Build a hold-out from a user's input.

    Args:
        given: A hold-out; its configuration; a list of cells such as [{"colour": "red", "shape": "square"}]; a function
            of the space; a boolean array; None for the data set's own split.
        space: The factor space, which a user may only learn from the data.

    Raises:
        InputError: For anything else, or for an empty list.
    """
    if given is None:
        return HOLDOUTS.build({"kind": "data"}, space)
    if isinstance(given, Holdout):
        return given
    if isinstance(given, Mapping):
        return HOLDOUTS.build(given, space)
    if isinstance(given, list | tuple) and not given:
        raise InputError(
            "The list of held-out cells is empty. Name the combinations that are never trained on, for example "
            f"holdout=[{_first_cell(space)}].",
            "holdout",
        )
    if isinstance(given, list | tuple) and all(isinstance(cell, Mapping) for cell in given):
        return HOLDOUTS.build({"kind": "cells", "cells": [dict(cell) for cell in given]}, space)
    if callable(given):
        return cast("Holdout", given(space))
    if isinstance(given, np.ndarray | torch.Tensor | list | tuple):
        return mask(space, np.asarray(given))
    raise InputError(
        "A hold-out must be one of rc.holdouts, its configuration, a list of cells, a function of the space or an "
        f"array over the grid. Got {given!r}.",
        "holdout",
    )


def _first_cell(space: FactorSpace) -> dict[str, Any]:
    """The first combination, as a user writes it."""
    return {
        name: factor.labels[0] if factor.categorical else float(factor.grid()[0])
        for name, factor in space.factors.items()
    }


def encoding_of(given: EncodingLike, space: FactorSpace) -> Encoding:
    """Build an encoding from its kind, its configuration or a function of the space, or return it unchanged."""
    if isinstance(given, Encoding):
        return given
    if isinstance(given, str):
        given = {"kind": given}
    return ENCODINGS.build(given, space) if isinstance(given, Mapping) else given(space)
