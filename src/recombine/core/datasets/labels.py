"""Labels of pictures → factors and grid positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Shaped

from recombine.core.errors import InputError, Problem
from recombine.core.factors import Factor, FactorSpace, categorical, discrete

Column = Shaped[np.ndarray, " picture"]
Positions = Int[np.ndarray, " picture"]
MOST_VALUES = 10_000  # that a factor found in labels may have
NEAR = 1e-3  # grid steps: largest distance of a label from the value that it denotes
NAMES_MISSING = (
    "Name them. In Python: factors=['colour', 'shape'] or factors={'colour': ['red', 'green'], 'size': 4}. On the "
    "command line: names=[colour,shape] for recombine data, scene.data.names=[colour,shape] for a run."
)


def columns_of(labels: Any, names: Sequence[str] | None, *, named: bool = True) -> dict[str, Column]:
    """Labels as a column per factor.

    Args:
        labels: A mapping or data frame name → column, or an array (picture,) or (picture, factor).
        names: Names of the columns of an array; which columns of a mapping to take, and in which order.
        named: False if the names are only column numbers, so that errors should not show them as names.
    """
    if hasattr(labels, "columns") and hasattr(labels, "to_numpy"):  # a data frame
        labels = {str(name): labels[name].to_numpy() for name in labels.columns}
    if isinstance(labels, Mapping):
        wanted = list(labels) if names is None else list(names)
        missing = [name for name in wanted if name not in labels]
        if missing:
            raise InputError(f"There are no labels for {', '.join(missing)}. Got labels for {', '.join(labels)}.")
        return {name: _plain(labels[name], f"The labels of {name!r}") for name in wanted}
    array = as_array(labels)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise InputError(f"Labels must be an array of shape (picture,) or (picture, factor). Got shape {array.shape}.")
    if names is None or len(names) != array.shape[1]:
        got = "no names" if names is None else f"{len(names)} names ({', '.join(names)})"
        raise InputError(f"The labels have {array.shape[1]} columns, but there are {got} for them. {NAMES_MISSING}")
    told = [f"The labels of {name!r}" if named else f"The labels in column {i}" for i, name in enumerate(names)]
    return {name: _plain(array[:, i], told[i]) for i, name in enumerate(names)}


def as_array(labels: Any) -> np.ndarray:
    """Labels other than a mapping, as an array."""
    if isinstance(labels, torch.Tensor):
        return labels.detach().cpu().numpy()
    try:
        return np.asarray(labels)
    except ValueError as error:  # rows of different length
        told = "Labels must be an array of shape (picture,) or (picture, factor). Got rows of different lengths."
        raise InputError(told) from error


def _plain(column: Any, what: str) -> Column:
    """A column of numbers or texts; a column of texts that are all numbers becomes one of numbers."""
    array = column.detach().cpu().numpy() if isinstance(column, torch.Tensor) else np.asarray(column)
    if array.ndim != 1:
        raise InputError(f"{what} must be one per picture. Got shape {array.shape}.")
    if array.dtype.kind == "O" and all(isinstance(entry, str) for entry in array):
        array = array.astype(str)
    if array.dtype.kind == "b":
        return array.astype(np.int64)
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            place = int(np.flatnonzero(~np.isfinite(array))[0])
            raise InputError(f"{what} must be finite. Got {array[place]} for picture {place}.")
        return array
    if array.dtype.kind in "US":
        return array.astype(str)
    strange = next((i for i, entry in enumerate(array) if not isinstance(entry, str | int | float | np.number)), None)
    got = "both" if strange is None else f"{array[strange]!r} for picture {strange}"
    raise InputError(
        f"{what} must be all numbers or all texts. Got {got}. Correct the labels, or leave such pictures out."
    )


def placed(
    columns: Mapping[str, Column], factors: Mapping[str, Factor]
) -> tuple[FactorSpace, Int[np.ndarray, "picture factor"]]:
    """The factor space, and the grid position of every picture in it.

    A factor that is not described is found in its labels: all values that occur, in increasing order.

    Raises:
        InputError: With a problem for every factor that has a label outside its values.
    """
    problems: list[Problem] = []
    found: dict[str, tuple[Factor, Positions]] = {}
    for name, column in columns.items():
        try:
            known = factors.get(name)
            found[name] = inferred(column, name) if known is None else (known, positions_of(column, known, name))
        except InputError as error:
            problems.append(Problem(name, str(error)))
    if problems:
        raise InputError.join(problems)
    positions = np.stack([place for _, place in found.values()], axis=1)
    return FactorSpace(**{name: factor for name, (factor, _) in found.items()}), positions


def inferred(column: Column, name: str) -> tuple[Factor, Positions]:
    """A factor with the values that occur in a column, and the position of each entry."""
    column = _numbers(column)
    values, positions = np.unique(column, return_inverse=True)
    if len(values) > MOST_VALUES:
        raise InputError(
            f"The labels of {name!r} have {len(values)} different values, more than a factor may have "
            f"({MOST_VALUES}). Group them first, or give the factor's values."
        )
    if column.dtype.kind == "U":
        return categorical(values.tolist()), positions
    # the decimal number that a float32 stands for, so that 0.1 is 0.1
    return discrete([float(str(value)) for value in values]), positions


def _numbers(column: Column) -> Column:
    """Texts that are all numbers, as a CSV file has them, as numbers."""
    if column.dtype.kind == "U":
        try:
            numbers = column.astype(float)
        except ValueError:
            return column
        if np.isfinite(numbers).all():
            return numbers
    return column


def positions_of(column: Column, factor: Factor, name: str) -> Positions:
    """The grid position of each entry. Raises an error that names the first entry that is not a value of the factor.

    Entries of a categorical factor are its labels, or their indices from 0.
    """
    if factor.categorical and column.dtype.kind == "U":
        order = {label: place for place, label in enumerate(factor.labels)}
        positions = np.array([order.get(entry, -1) for entry in column.tolist()], dtype=np.int64)
        if (positions < 0).any() and _numbers(column).dtype.kind != "U":  # numbers read from a text file
            return positions_of(_numbers(column), factor, name)
        wrong = positions < 0
    else:
        numbers = _numbers(column)
        if numbers.dtype.kind == "U":
            raise InputError(
                f"The labels of {name!r} must be numbers because the values of the factor are numbers. Got "
                f"{column[0]!r}."
            )
        exact = factor.position(torch.from_numpy(numbers.astype(np.float64))).numpy()
        positions = np.round(exact).astype(np.int64)
        wrong = np.abs(exact - positions) > NEAR
        if factor.kind == "cyclic":
            positions %= factor.size
        wrong |= (positions < 0) | (positions >= factor.size)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"Picture {place} has the label {column[place].item()!r} for {name!r}, which is none of its values "
            f"({_shown(factor)}); {int(wrong.sum())} of {len(column)} pictures have such labels. Correct the labels or "
            "the factor's values."
        )
    return positions


def _shown(factor: Factor, most: int = 8) -> str:
    shown = ", ".join(factor.labels[:most])
    return shown if factor.size <= most else f"{shown}, … {factor.labels[-1]}"
