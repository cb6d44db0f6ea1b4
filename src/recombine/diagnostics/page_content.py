"""The content of the page for one part: tables, maps over the grid, and the data of its panel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

Curve = Literal["linear", "root", "log"]


@dataclass(frozen=True, eq=False)
class PageMap:
    """Numbers over the grid, shown as a map.

    Attributes:
        title: Name of the map. Maps of one title that differ in their factor share a row of the page.
        values: (cell,) or (layer, cell), NaN where there is no number.
        factor: The factor that the map is about; empty for none.
        about: The meaning of the numbers, in one line.
        limits: Ends of the colour scale; by default the range of the numbers.
        least_steps: The colour scale spans at least this many grid steps of the factor; smaller differences are
            rounding.
        classes: Class names if the numbers are class indices; empty otherwise.
        curve: How the numbers are rounded: evenly, or with finer steps near 0 ("root").
    """

    title: str
    values: np.ndarray
    factor: str = ""
    about: str = ""
    limits: tuple[float, float] | None = None
    least_steps: float = 0.0
    classes: tuple[str, ...] = ()
    curve: Curve = "linear"


@dataclass(frozen=True, eq=False)
class PageContent:
    """The tables and maps of a part that the page shows.

    Attributes:
        tables: Names of the tables to show.
        maps: Maps over the grid, of one number per cell or of one per layer and cell.
    """

    tables: tuple[str, ...] = ()
    maps: tuple[PageMap, ...] = ()


@dataclass(frozen=True)
class LayerColumn:
    """A column that a part adds to the overview by layer.

    Attributes:
        heading: Its name in tables and charts.
        highest: The largest possible value; None if unbounded.
        cut_below: Charts omit smaller values, so that a few bad values do not flatten the rest.
    """

    heading: str
    highest: float | None = 1.0
    cut_below: float | None = None


@runtime_checkable
class Packer(Protocol):
    """Packs arrays into the page. The page's script reads an array by the reference that `add` returns."""

    def add(
        self, values: np.ndarray, *, bits: int = 8, curve: Curve = "linear", by_row: bool = False
    ) -> dict[str, Any]: ...

    def add_pictures(self, outputs: np.ndarray, *, bits: int = 8) -> dict[str, Any]: ...

    def add_integers(self, values: np.ndarray) -> dict[str, Any]: ...
