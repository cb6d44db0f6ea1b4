"""Factor spaces: n named factors and the grid of their combinations.

    space = FactorSpace(x=28, y=28)                       # two discrete factors, values 0…27
    space = FactorSpace(x=28, y=28, angle=cyclic(360, 12))
    space = FactorSpace(x=28, colour=["red", "green"], size=[0.5, 0.7, 1.0])
    space.cell(x=3, colour="red", size=0.7)               # the number of a cell
    space.label(4)                                        # "x=0, colour=green, size=0.7"

A *value* is a factor's coordinate in its own unit (a pixel, a degree). The values of a categorical factor are the
indices of its labels, 0 … size−1. A *position* is a value in grid steps: grid values have the integer positions
0 … size−1. For regular factors, value = low + step · position; between unevenly spaced grid values, positions are
interpolated linearly. A *cell* is one combination of grid values; cells are numbered in row-major order (the last
factor varies fastest), which never changes for a given space. The grid is not stored: cells are computed on demand, in
chunks.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from recombine.core.errors import InputError, Problem
from recombine.core.registry import nearest

FactorKind = Literal["discrete", "continuous", "cyclic", "categorical"]
KINDS = ("discrete", "continuous", "cyclic", "categorical")
DEFAULT_CHUNK = 4096
MOST_CELLS = 2**62
MOST_SHOWN = 8  # maximum number of values or labels in a message
EVEN = 1e-9  # relative tolerance of even spacing
NEAR = 1e-3  # share of the spacing by which a number may differ from its grid value


@dataclass(frozen=True)
class Factor:
    """One factor, with `size` grid values. Create one with `discrete`, `continuous`, `cyclic` or `categorical`.

    *discrete* takes only its grid values: low, low + step, …, or the increasing `listed` ones. *continuous* takes every
    value in [low, low + size·step). *cyclic* does too and wraps around, so that its first and last grid values are
    neighbours. *categorical* has labels without order or distance; its values 0 … size−1 are their indices.

    Attributes:
        listed: Grid values with unequal distances, of a discrete factor; else None. `low` is then the first one, and
            `step` the mean distance.
        categories: The labels of a categorical factor; else None. `labels` exists for every factor.
    """

    kind: FactorKind
    size: int
    low: float = 0.0
    step: float = 1.0
    listed: tuple[float, ...] | None = None
    categories: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(
                f"A factor's kind must be {', '.join(KINDS[:-1])} or {KINDS[-1]}. Got {self.kind!r} instead."
            )
        if hasattr(self.size, "tolist"):  # a NumPy number
            object.__setattr__(self, "size", self.size.tolist())  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise InputError(f"A factor's size must be an integer of at least 1. Got {self.size!r} instead.")
        for field in ("low", "step"):  # equal factors have equal configurations
            object.__setattr__(self, field, _number(getattr(self, field), field))
        if not math.isfinite(self.low) or not (math.isfinite(self.step) and self.step > 0):
            raise InputError(f"A factor needs a finite low and a step above 0. Got low={self.low}, step={self.step}.")
        if (self.categories is not None) != self.categorical or (self.listed is not None and self.kind != "discrete"):
            raise InputError(
                "Only categorical factors have labels, and only discrete factors have listed values. Got a "
                f"{self.kind} factor. Create it with discrete([0.5, 0.7, 1.0]) or categorical(['red', 'green'])."
            )

    @property
    def categorical(self) -> bool:
        """Whether its values are labels, without order or distance."""
        return self.kind == "categorical"

    @property
    def differentiable(self) -> bool:
        """Whether derivatives along the factor are meaningful."""
        return not self.categorical

    @property
    def extent(self) -> float:
        """Length of the range of values; the period of a cyclic factor."""
        return self.size * self.step

    @property
    def high(self) -> float:
        """The last grid value."""
        return self.listed[-1] if self.listed else self.low + (self.size - 1) * self.step

    @property
    def end(self) -> float:
        """The end of the range of values: inclusive for a discrete factor, exclusive for the others."""
        return self.high if self.kind in ("discrete", "categorical") else self.low + self.extent

    @property
    def spacing(self) -> float:
        """The smallest distance between two grid values."""
        return min(b - a for a, b in itertools.pairwise(self.listed)) if self.listed else self.step

    @property
    def slack(self) -> float:
        """How far a value may lie beyond a bound, because grid values have rounding errors."""
        return self.spacing * 1e-4

    def takes(self, value: float) -> bool:
        """Whether a value lies in the factor's range (for a discrete factor: between its first and last value)."""
        closed = self.kind in ("discrete", "categorical")
        below = value <= self.end + self.slack if closed else value < self.end
        return self.low - self.slack <= value and below

    @property
    def range(self) -> str:
        """The range in words."""
        if self.categorical:
            return shown(self.labels)
        return f"from {self.low:g} {'to' if self.kind == 'discrete' else 'up to but excluding'} {self.end:g}"

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The text of each grid value: "red", "3", "0.5". All are different."""
        if self.categories is not None:
            return self.categories
        values = self.listed or tuple(self.low + self.step * i for i in range(self.size))
        for style in ("g", ".12g"):
            labels = tuple(format(value, style) for value in values)
            if len(set(labels)) == len(labels):
                return labels
        return tuple(map(repr, values))

    def label(self, value: float) -> str:
        """The text of any value; for a categorical factor, the nearest label."""
        if not self.categorical:
            return f"{value:g}"
        return self.labels[min(max(round(value), 0), self.size - 1)]

    def index(self, given: Any) -> int:
        """The position of the grid value that a number or a label denotes.

        Raises:
            InputError: If there is no such value.
        """
        if hasattr(given, "tolist"):
            given = given.tolist()
        if isinstance(given, str):
            if given in self.labels:
                return self.labels.index(given)
            close = nearest(given, self.labels)
            raise InputError(f"There is no value {given!r}{close}. Values: {shown(self.labels)}.")
        value = _number(given, "value")
        if math.isfinite(value):
            position = float(self.position(torch.tensor(value, dtype=torch.float64)))
            place = round(position) % self.size if self.kind == "cyclic" else round(position)
            if abs(position - round(position)) <= NEAR and 0 <= place < self.size:
                return place
        raise InputError(f"There is no value {given!r}. Values: {shown(self.labels)}.")

    def grid(self) -> Float[Tensor, " size"]:
        """All grid values, ascending."""
        if self.listed:
            return torch.tensor(self.listed)
        return self.low + self.step * torch.arange(self.size, dtype=torch.get_default_dtype())

    def value(self, positions: Real[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The values at positions; the inverse of `position`, in the precision of the positions."""
        positions = as_values(positions)
        if not self.listed:
            return self.low + self.step * positions
        below = positions.detach().floor().clamp(0, self.size - 2)
        start, length = self._interval(below)
        return start + (positions - below) * length

    def position(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Values in grid steps. At an unevenly spaced grid value, the derivative is the one towards the next value."""
        if not self.listed:
            return (values - self.low) / self.step
        inner = torch.tensor(self.listed[1:-1], dtype=values.dtype, device=values.device)
        below = (values.detach().unsqueeze(-1) >= inner).sum(-1).to(values.dtype)
        start, length = self._interval(below)
        return below + (values - start) / length

    def _interval(self, below: Float[Tensor, "*shape"]) -> tuple[Tensor, Tensor]:
        """The listed value at each of these positions and the distance to the next one; no indexing, for vmap."""
        grid = torch.tensor(self.listed, dtype=below.dtype, device=below.device)
        here = below.unsqueeze(-1) == torch.arange(self.size - 1, device=below.device)
        return (here * grid[:-1]).sum(-1), (here * grid.diff()).sum(-1)

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        """a − b in the factor's unit; the shorter way around for a cyclic factor (range [−period/2, period/2)).

        For a categorical factor, it is 1 where the labels differ and 0 where they agree.
        """
        if self.categorical:
            return (a.round() != b.round()).to(a.dtype)
        d = a - b
        if self.kind == "cyclic":
            d = torch.remainder(d + self.extent / 2, self.extent) - self.extent / 2
        return d

    def steps(self, a: Tensor, b: Tensor) -> Tensor:
        """a − b in grid steps, see `difference`."""
        if self.listed:
            return self.position(a) - self.position(b)
        return self.difference(a, b) / self.step

    def __str__(self) -> str:
        if self == discrete(self.size):
            return str(self.size)
        if self.listed or self.categorical:
            return f"[{shown(self.labels)}]"
        return f"{self.kind}({self.low:g}…{self.high:g}, {self.size} values)"


FactorLike = int | Factor | Sequence[int | float | str] | np.ndarray


def shown(labels: Sequence[str]) -> str:
    """Labels as text; only the first few of many."""
    first = ", ".join(labels[:MOST_SHOWN])
    return first if len(labels) <= MOST_SHOWN else f"{first}, … ({len(labels)} values)"


def _number(given: Any, what: str) -> float:
    if hasattr(given, "tolist"):  # NumPy's or torch's
        given = given.tolist()
    if isinstance(given, bool) or not isinstance(given, numbers.Real):
        raise InputError(f"A factor's {what} must be a number. Got {given!r} instead.")
    try:
        return float(given) + 0.0  # −0 is 0
    except OverflowError:
        return math.inf


def as_values(values: Real[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Factor values in floating point. Integers are accepted as values."""
    return values if values.is_floating_point() else values.to(torch.get_default_dtype())


def discrete(size: int | Sequence[int | float], *, low: float = 0.0, step: float = 1.0) -> Factor:
    """A factor with `size` separate values low, low + step, …, or with a list of increasing values.

    A list of evenly spaced values gives the same factor as its size, low and step.
    """
    if not isinstance(size, Sequence):
        return Factor("discrete", size, low, step)
    values = [_number(value, "values") for value in size]
    if not values or not all(map(math.isfinite, values)) or any(a >= b for a, b in itertools.pairwise(values)):
        raise InputError(f"A factor's values must be finite and increase. Got {list(size)}. Sort them, or give labels.")
    step = float(f"{values[1] - values[0]:.12g}") if len(values) > 1 else 1.0
    if all(abs(values[0] + i * step - value) <= EVEN * step for i, value in enumerate(values)):
        return Factor("discrete", len(values), values[0], step)
    mean = (values[-1] - values[0]) / (len(values) - 1)
    return Factor("discrete", len(values), values[0], mean, listed=tuple(values))


def categorical(labels: Sequence[str]) -> Factor:
    """A factor whose values are labels, without order or distance."""
    texts = list(labels)
    if isinstance(labels, str) or not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise InputError(f"A categorical factor needs a list of labels, such as ['red', 'green']. Got {labels!r}.")
    if len(set(texts)) != len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise InputError(f"The labels of a factor must differ. Got {twice!r} more than once.")
    return Factor("categorical", len(texts), categories=tuple(texts))


def continuous(low: float, high: float, size: int) -> Factor:
    """A factor with any value in [low, high), studied on a grid of `size` equally spaced values starting at low."""
    if not high > low:
        raise InputError(f"A continuous factor needs low < high. Got low={low}, high={high}.")
    return Factor("continuous", size, low, (high - low) / size if size else 0.0)


def cyclic(period: float, size: int, *, low: float = 0.0) -> Factor:
    """A factor that wraps around after `period`, studied on `size` equally spaced values starting at low."""
    return Factor("cyclic", size, low, period / size if size else 0.0)


def _each(given: Mapping[str, Any], make: Callable[[Any], Factor]) -> dict[str, Factor]:
    """A factor for each name. The problems of all of them are raised together."""
    made: dict[str, Factor] = {}
    problems: list[Problem] = []
    for name, part in given.items():
        if not isinstance(name, str):
            problems.append(Problem("", f"A factor's name must be text. Got {name!r} instead."))
            continue
        try:
            made[name] = make(part)
        except InputError as error:
            told = str(error)
            problems.append(Problem(name, f"Factor {name!r}: {told[0].lower()}{told[1:]}"))
    if problems:
        raise InputError.join(problems)
    return made


def _factor_of(given: Any) -> Factor:
    """The factor that a number, a list or an entry of a configuration describes."""
    if isinstance(given, Factor):
        return given
    if hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(given, int):
        return discrete(given)
    if isinstance(given, list | tuple):
        return _listed(given)
    expected = (
        "A factor must be a number of values, a list of increasing numbers or of labels, or a mapping with kind, size "
        "and optionally low and step."
    )
    if not isinstance(given, Mapping):
        raise InputError(f"{expected} Got {given!r}.")
    kind = given.get("kind")
    wanted = {"categorical": ("labels",), "discrete": ("values",) if "values" in given else ("size",)}
    needed = ("kind", *wanted.get(str(kind), ("size",)))
    allowed = needed if needed[1] in ("labels", "values") else ("kind", "size", "low", "step")
    unknown = [f"{field!r}{nearest(str(field), allowed)}" for field in given if field not in allowed]
    missing = [field for field in needed if field not in given]
    if unknown or missing:
        wrong = [
            f"{what}: {', '.join(those)}." for what, those in (("Unknown", unknown), ("Missing", missing)) if those
        ]
        raise InputError(f"{expected} {' '.join(wrong)}")
    if kind == "categorical":
        return categorical(given["labels"])
    if "values" in given:
        if not isinstance(given["values"], list | tuple):
            raise InputError(f"A factor's values must be a list of increasing numbers. Got {given['values']!r}.")
        return discrete(given["values"])
    low, step = (_number(given.get(field, usual), field) for field, usual in (("low", 0.0), ("step", 1.0)))
    return Factor(given["kind"], given["size"], low, step)


def _listed(given: Sequence[Any]) -> Factor:
    """The factor of a list: labels if all are text, else numbers."""
    if any(isinstance(value, str) for value in given):
        if not all(isinstance(value, str) for value in given):
            raise InputError(f"The list of a factor must contain only numbers or only labels. Got {list(given)}.")
        return categorical(given)
    return discrete(given)


class FactorSpace:
    """n named factors in a fixed order.

    Args:
        **factors: name = size (discrete values 0 … size−1), a list of increasing numbers, a list of labels, or a
            Factor.

    Example:
        >>> space = FactorSpace(x=28, y=28)
        >>> len(space), space.shape
        (784, (28, 28))
        >>> space.values(torch.tensor([29]))
        tensor([[1., 1.]])
        >>> FactorSpace(x=3, colour=["red", "green"]).label(3)
        'x=1, colour=green'
    """

    def __init__(self, /, **factors: FactorLike) -> None:
        if not factors:
            raise InputError("A factor space needs at least one factor, for example FactorSpace(x=28, y=28). Got none.")
        self.factors = _each(factors, _factor_of)
        if math.prod(self.shape) > MOST_CELLS:
            raise InputError(f"A factor space has at most {MOST_CELLS} cells. Got {self.shape} values per factor.")

    @classmethod
    def from_config(cls, config: Any) -> FactorSpace:
        """Build from the `scene.factors` part of a configuration (the inverse of `to_config`)."""
        if not isinstance(config, Mapping):
            raise InputError(f'Factors must be given by name, as in {{"x": 28, "y": 28}}. Got {config!r}.')
        return cls(**_each(config, _factor_of))

    def to_config(self) -> dict[str, Any]:
        """JSON-able description: an integer for a factor 0 … size−1, a list of labels or of unequally spaced values,
        the factor's kind, size, low and step otherwise."""
        return {name: _config_of(factor) for name, factor in self.factors.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the factors, in order."""
        return tuple(self.factors)

    @property
    def shape(self) -> tuple[int, ...]:
        """Grid values per factor; arrays over the grid have this shape."""
        return tuple(f.size for f in self.factors.values())

    @property
    def n_factors(self) -> int:
        """The number of factors."""
        return len(self.factors)

    @property
    def differentiable(self) -> tuple[str, ...]:
        """The factors along which derivatives are meaningful: all except the categorical ones."""
        return tuple(name for name, factor in self.factors.items() if factor.differentiable)

    def __len__(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FactorSpace) and list(self.factors.items()) == list(other.factors.items())

    def __hash__(self) -> int:
        return hash(tuple(self.factors.items()))

    def __repr__(self) -> str:
        return f"FactorSpace({', '.join(f'{name}={factor}' for name, factor in self.factors.items())})"

    def axis(self, name: str) -> int:
        """The column of a factor in a tensor of values."""
        if name not in self.factors:
            raise InputError(f"There is no factor {name!r} in {self}. Factors: {', '.join(self.names)}.")
        return self.names.index(name)

    def chunks(self, size: int = DEFAULT_CHUNK) -> Iterator[Int[Tensor, " cell"]]:
        """All cells in order, at most `size` at a time."""
        for start in range(0, len(self), size):
            yield torch.arange(start, min(start + size, len(self)))

    def coordinates(self, cells: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape factor"]:
        """The integer grid positions of cells."""
        columns = []
        for size in reversed(self.shape):
            columns.append(cells % size)
            cells = cells // size
        return torch.stack(columns[::-1], dim=-1)

    def values(self, cells: Int[Tensor, "*shape"] | None = None) -> Float[Tensor, "*shape factor"]:
        """The factor values of cells; by default of all cells, in order."""
        cells = torch.arange(len(self)) if cells is None else cells
        coordinates = self.coordinates(cells).to(torch.get_default_dtype())
        values = self._lows(coordinates) + self._steps(coordinates) * coordinates
        for axis, factor in enumerate(self.factors.values()):
            if factor.listed:
                values[..., axis] = factor.value(coordinates[..., axis])
        return values

    def cell(self, **values: Any) -> int:
        """The number of the cell with these grid values or labels: `space.cell(x=3, colour="red")`."""
        places = self.indices(values)
        missing = [name for name in self.names if name not in places]
        if missing:
            raise InputError(f"A cell of {self} has a value for each factor. Missing: {', '.join(missing)}.")
        cell = 0
        for name, factor in self.factors.items():
            cell = cell * factor.size + places[name]
        return cell

    def indices(self, values: Mapping[str, Any]) -> dict[str, int]:
        """Positions of some factors' grid values, given as numbers or labels. All mistakes are raised together."""
        places: dict[str, int] = {}
        problems: list[Problem] = []
        for name, given in values.items():
            try:
                self.axis(name)
                places[name] = self.factors[name].index(given)
            except InputError as error:
                here = f"Factor {name!r}: " if name in self.factors else ""
                problems.append(Problem(str(name), f"{here}{error}"))
        if problems:
            raise InputError.join(problems)
        return places

    def label(self, cell: int | Int[Tensor, ""]) -> str:
        """A cell in words: "x=3, colour=red"."""
        places = self.coordinates(torch.as_tensor(cell)).tolist()
        return ", ".join(f"{name}={f.labels[place]}" for place, (name, f) in zip(places, self.factors.items()))

    def describe(self, values: Sequence[float]) -> str:
        """Any factor values in words: "x=3.25, colour=red"."""
        return ", ".join(f"{name}={f.label(value)}" for value, (name, f) in zip(values, self.factors.items()))

    def checked(self, values: Real[Tensor, "*shape factor"]) -> Float[Tensor, "*shape factor"]:
        """Values in floating point. Raises unless the last axis has one column per factor."""
        if values.shape[-1:] != (self.n_factors,):
            raise InputError(
                f"Values must end in one column per factor ({', '.join(self.names)}). Got shape {tuple(values.shape)}."
            )
        return as_values(values)

    def checked_cells(self, cells: Int[Tensor, " cell"] | Sequence[int]) -> Int[Tensor, " cell"]:
        """Cell numbers as a tensor. Raises if a cell does not exist."""
        chosen = torch.as_tensor(cells, dtype=torch.long)
        if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(self):
            raise InputError(f"Cells are numbered 0 … {len(self) - 1}. Got {chosen.tolist()}.")
        return chosen

    def positions(self, values: Real[Tensor, "*shape factor"]) -> Float[Tensor, "*shape factor"]:
        """Values in grid steps (differentiable)."""
        values = self.checked(values)
        if not any(factor.listed for factor in self.factors.values()):
            return (values - self._lows(values)) / self._steps(values)
        columns = [factor.position(values[..., axis]) for axis, factor in enumerate(self.factors.values())]
        return torch.stack(columns, dim=-1)

    def cells(self, values: Real[Tensor, "*shape factor"]) -> Int[Tensor, "*shape"]:
        """The cell nearest to each combination of values. Raises for values beyond the factor's range."""
        exact = self.positions(values)
        positions = exact.round().long()
        flat = torch.zeros(positions.shape[:-1], dtype=torch.long, device=values.device)
        for axis, (name, factor) in enumerate(self.factors.items()):
            column = positions[..., axis]
            if factor.kind == "cyclic":
                column = column % factor.size
            elif factor.kind == "continuous":  # its range extends one step beyond the last grid value
                column = torch.where(exact[..., axis] < factor.size, column.clamp(max=factor.size - 1), factor.size)
            if column.numel() and (column.min() < 0 or column.max() >= factor.size):
                outside = values[..., axis][(column < 0) | (column >= factor.size)].flatten()[0].item()
                of = "labels numbered from 0, " if factor.categorical else "values "
                raise InputError(f"Factor {name!r} takes {of}{factor.range}. Got {outside:g} instead.")
            flat = flat * factor.size + column
        return flat

    def _lows(self, like: Tensor) -> Tensor:
        return torch.tensor([f.low for f in self.factors.values()], dtype=like.dtype, device=like.device)

    def _steps(self, like: Tensor) -> Tensor:
        return torch.tensor([f.step for f in self.factors.values()], dtype=like.dtype, device=like.device)


def _config_of(factor: Factor) -> Any:
    if factor.categories or factor.listed:
        return list(factor.categories or factor.listed or ())
    if factor == discrete(factor.size):
        return factor.size
    return {field: getattr(factor, field) for field in ("kind", "size", "low", "step")}
