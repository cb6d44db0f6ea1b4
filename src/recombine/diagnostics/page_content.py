"""What the page shows of a part: tables, maps over the grid, and the data of a panel of its own."""

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
        about: What the numbers mean, in a line.
        limits: Ends of the colour scale; those of the numbers unless given.
        least_steps: The colour scale spans at least so many grid steps of the factor. What is less is rounding.
        classes: Names of the classes whose indices the numbers are; empty if they are no classes.
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
    """What the page shows of a part.

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
        heading: What it is called in tables and charts.
        highest: The largest possible value; None if there is none.
        cut_below: Charts do not show what lies below, so that a few bad values do not flatten the rest.
    """

    heading: str
    highest: float | None = 1.0
    cut_below: float | None = None


@runtime_checkable
class Packer(Protocol):
    """Packs arrays into the page. What `add` returns is given to the page's script, which reads the array by it."""

    def add(
        self, values: np.ndarray, *, bits: int = 8, curve: Curve = "linear", by_row: bool = False
    ) -> dict[str, Any]: ...

    def add_pictures(self, outputs: np.ndarray, *, bits: int = 8) -> dict[str, Any]: ...

    def add_integers(self, values: np.ndarray) -> dict[str, Any]: ...
