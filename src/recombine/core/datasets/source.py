"""The interface of layout readers: labels of every picture, and pictures by number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Bool, Int, Shaped
from pydantic import AfterValidator

from recombine.core.datasets.files import DataFiles
from recombine.core.datasets.rows import ChosenRows, Rows
from recombine.core.errors import InputError
from recombine.core.factors import Factor
from recombine.core.registry import Family, NotIdentity

Channels = Literal["first", "last"]
Columns = Mapping[str, Shaped[np.ndarray, " picture"]]
Chosen = Int[np.ndarray, " chosen"]


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())


# The path of a file is not part of a run's identity; the checksum of its content is.
DataPath = Annotated[str, AfterValidator(_absolute), NotIdentity()]
OptionalDataPath = Annotated[str | None, AfterValidator(_absolute), NotIdentity()]

DATASETS = Family("data set", (DataFiles,))


@dataclass(eq=False)
class Source:
    """Labelled pictures as stored in a file, before factor values are selected.

    Attributes:
        columns: Labels of every picture, by factor: values, texts, or positions where `factors` describes the factor.
        rows: Returns the pictures with given indices, or all; a compressed file is read when this is called.
        shape: (picture, …) of all pictures as they are stored.
        dtype: Of the stored numbers.
        factors: The factors that the layout defines. Columns of such factors are grid positions 0 … size−1.
        channels: Position of the colour channels; None determines it from their number.
        scale: Stored numbers are divided by this; None takes the largest value of the type.
        is_test: Whether a picture belongs to the test part of the data set; None if there is no split.
        named: Whether the columns have names; otherwise they take those of the requested factors, in order.
        stream: Yields all pictures in order, some at a time, for compressed files; None if `rows` reads them in place.
    """

    columns: Columns
    rows: Callable[[Chosen | None], Rows]
    shape: tuple[int, ...]
    dtype: np.dtype
    factors: Mapping[str, Factor] = field(default_factory=dict)
    channels: Channels | None = None
    scale: float | None = None
    is_test: Bool[np.ndarray, " picture"] | None = None
    named: bool = True
    stream: Callable[[], Iterator[np.ndarray]] | None = None
    config: dict[str, Any] = field(default_factory=dict, repr=False)  # what the reader was given

    def __post_init__(self) -> None:
        if not 2 <= len(self.shape) <= 4 or 0 in self.shape:
            raise InputError(
                "Pictures must be an array of shape (picture, row, column), (picture, row, column, channel), "
                f"(picture, channel, row, column) or (picture, number). Got {self.shape}."
            )
        parts = {f"the labels of {n!r}" if self.named else "the labels": c for n, c in self.columns.items()}
        if self.is_test is not None:
            parts["the split"] = self.is_test
        for what, column in parts.items():
            if column.shape != (self.shape[0],):
                raise InputError(
                    f"Every picture needs labels. Got {self.shape[0]} pictures, but {what} of {len(column)} pictures. "
                    "Give as many labels as pictures, in the same order."
                )

    def only(self, chosen: Chosen) -> Source:
        """The source of some of its pictures."""
        if len(chosen) == self.shape[0] and bool((chosen == np.arange(len(chosen))).all()):
            return self
        return replace(
            self,
            columns={name: column[chosen] for name, column in self.columns.items()},
            rows=lambda some: self.rows(chosen if some is None else chosen[some]),
            shape=(len(chosen), *self.shape[1:]),
            is_test=None if self.is_test is None else self.is_test[chosen],
            stream=None,
        )

    def blocks(self) -> Iterator[Shaped[np.ndarray, "..."]]:
        """All pictures in order, some at a time."""
        if self.stream is not None:
            yield from self.stream()
            return
        rows = self.rows(None)
        for start in range(0, len(rows), rows.block):
            yield rows.read(np.arange(start, min(start + rows.block, len(rows))))


def rows_of(rows: Rows) -> Callable[[Chosen | None], Rows]:
    """`Source.rows` for rows that are read in place."""
    return lambda chosen: rows if chosen is None else ChosenRows(rows, chosen)
