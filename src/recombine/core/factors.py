"""Factor spaces: n named factors and the grid of their combinations.

    space = FactorSpace(x=28, y=28)                       # two discrete factors, values 0…27
    space = FactorSpace(x=28, y=28, angle=cyclic(360, 12))

A *value* is a factor's coordinate in its own unit (a pixel, a degree). A *position* is the same thing counted in
grid steps: value = low + step · position, so that grid values have integer positions 0 … size−1. A *cell* is one
combination of grid values; cells are numbered in row-major order (the last factor varies fastest), which never
changes for a given space. Nothing here stores the grid: cells are made on demand, in chunks.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from recombine.core.errors import InputError, Problem
from recombine.core.registry import nearest

FactorKind = Literal["discrete", "continuous", "cyclic"]
DEFAULT_CHUNK = 4096
MOST_CELLS = 2**62
_FIELDS = ("kind", "size", "low", "step")


@dataclass(frozen=True)
class Factor:
    """One factor: `size` grid values low, low + step, …

    *discrete* takes only its grid values; *continuous* takes every value in [low, low + size·step); *cyclic* does
    too and wraps around, so that its first and last grid values are neighbours.
    """

    kind: FactorKind
    size: int
    low: float = 0.0
    step: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in ("discrete", "continuous", "cyclic"):
            raise InputError(f"A factor's kind must be discrete, continuous or cyclic. Got {self.kind!r} instead.")
        if hasattr(self.size, "tolist"):  # a NumPy number
            object.__setattr__(self, "size", self.size.tolist())  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise InputError(
                f"A factor's size must be a whole number of values, at least 1. Got {self.size!r} instead."
            )
        for field in ("low", "step"):  # equal factors have equal configurations
            object.__setattr__(self, field, _number(getattr(self, field), field))
        if not math.isfinite(self.low) or not (math.isfinite(self.step) and self.step > 0):
            raise InputError(f"A factor needs a finite low and a step above 0. Got low={self.low}, step={self.step}.")

    @property
    def extent(self) -> float:
        """Length of the range of values; the period of a cyclic factor."""
        return self.size * self.step

    @property
    def high(self) -> float:
        """The last grid value."""
        return self.low + (self.size - 1) * self.step

    @property
    def end(self) -> float:
        """Where the range of values ends: at the last value of a discrete factor, just before this for the others."""
        return self.high if self.kind == "discrete" else self.low + self.extent

    @property
    def slack(self) -> float:
        """How far a value may lie beyond a bound: grid values carry rounding errors."""
        return self.step * 1e-4

    def takes(self, value: float) -> bool:
        """Whether a value lies in the factor's range (for a discrete factor: between its first and last value)."""
        below = value <= self.end + self.slack if self.kind == "discrete" else value < self.end
        return self.low - self.slack <= value and below

    @property
    def range(self) -> str:
        """The range in words."""
        return f"from {self.low:g} {'to' if self.kind == 'discrete' else 'up to but without'} {self.end:g}"

    def grid(self) -> Float[Tensor, " size"]:
        """All grid values, ascending."""
        return self.low + self.step * torch.arange(self.size, dtype=torch.get_default_dtype())

    def position(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Values in grid steps."""
        return (values - self.low) / self.step

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        """a − b in the factor's unit; the short way round for a cyclic factor (range [−period/2, period/2))."""
        d = a - b
        if self.kind == "cyclic":
            d = torch.remainder(d + self.extent / 2, self.extent) - self.extent / 2
        return d


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
    """Factor values in floating point: whole numbers count as values, too."""
    return values if values.is_floating_point() else values.to(torch.get_default_dtype())


def discrete(size: int, *, low: float = 0.0, step: float = 1.0) -> Factor:
    """A factor with `size` separate values low, low + step, …"""
    return Factor("discrete", size, low, step)


def continuous(low: float, high: float, size: int) -> Factor:
    """A factor with any value in [low, high), studied on a grid of `size` equally spaced values starting at low."""
    if not high > low:
        raise InputError(f"A continuous factor needs low < high. Got low={low}, high={high}.")
    return Factor("continuous", size, low, (high - low) / size if size else 0.0)


def cyclic(period: float, size: int, *, low: float = 0.0) -> Factor:
    """A factor that wraps around after `period`, studied on `size` equally spaced values starting at low."""
    return Factor("cyclic", size, low, period / size if size else 0.0)


def _each(given: Mapping[str, Any], make: Callable[[Any], Factor]) -> dict[str, Factor]:
    """A factor for each name; the problems of all of them are raised together."""
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
    """The factor that one entry of a configuration describes."""
    if isinstance(given, int):
        return discrete(given)
    expected = "A factor is a number of values, or has kind, size and perhaps low and step."
    if not isinstance(given, Mapping):
        raise InputError(f"{expected} Got {given!r}.")
    unknown = [f"{field!r}{nearest(str(field), _FIELDS)}" for field in given if field not in _FIELDS]
    missing = [field for field in ("kind", "size") if field not in given]
    if unknown or missing:
        wrong = [
            f"{what}: {', '.join(those)}." for what, those in (("Unknown", unknown), ("Missing", missing)) if those
        ]
        raise InputError(f"{expected} {' '.join(wrong)}")
    numbers = {field: _number(given[field], field) for field in ("low", "step") if field in given}
    return Factor(given["kind"], given["size"], **numbers)


class FactorSpace:
    """n named factors in a fixed order.

    Args:
        **factors: name = size (discrete values 0 … size−1) or name = Factor.

    Example:
        >>> space = FactorSpace(x=28, y=28)
        >>> len(space), space.shape
        (784, (28, 28))
        >>> space.values(torch.tensor([29]))
        tensor([[1., 1.]])
    """

    def __init__(self, /, **factors: int | Factor) -> None:
        if not factors:
            raise InputError("A factor space needs at least one factor, for example FactorSpace(x=28, y=28). Got none.")
        self.factors = _each(factors, lambda given: given if isinstance(given, Factor) else discrete(given))
        if math.prod(self.shape) > MOST_CELLS:
            raise InputError(f"A factor space has at most {MOST_CELLS} cells. Got {self.shape} values per factor.")

    @classmethod
    def from_config(cls, config: Any) -> FactorSpace:
        """Build from the `scene.factors` part of a configuration (the inverse of `to_config`)."""
        if not isinstance(config, Mapping):
            raise InputError(f'Factors are given by name, as in {{"x": 28, "y": 28}}. Got {config!r}.')
        return cls(**_each(config, _factor_of))

    def to_config(self) -> dict[str, Any]:
        """JSON-able description: a plain integer for a factor 0 … size−1, the factor's fields otherwise."""
        return {name: f.size if f == discrete(f.size) else asdict(f) for name, f in self.factors.items()}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.factors)

    @property
    def shape(self) -> tuple[int, ...]:
        """Grid values per factor; arrays over the grid have this shape."""
        return tuple(f.size for f in self.factors.values())

    @property
    def n_factors(self) -> int:
        return len(self.factors)

    def __len__(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FactorSpace) and list(self.factors.items()) == list(other.factors.items())

    def __hash__(self) -> int:
        return hash(tuple(self.factors.items()))

    def __repr__(self) -> str:
        parts = [
            f"{name}={f.size}" if f == discrete(f.size) else f"{name}={f.kind}({f.low:g}…{f.high:g}, {f.size} values)"
            for name, f in self.factors.items()
        ]
        return f"FactorSpace({', '.join(parts)})"

    def axis(self, name: str) -> int:
        """Which column of a values tensor a factor is."""
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

    def values(self, cells: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape factor"]:
        """The factor values of cells."""
        coordinates = self.coordinates(cells).to(torch.get_default_dtype())
        return self._lows(coordinates) + self._steps(coordinates) * coordinates

    def checked(self, values: Real[Tensor, "*shape factor"]) -> Float[Tensor, "*shape factor"]:
        """Values in floating point; an error unless they end in one column per factor."""
        if values.shape[-1:] != (self.n_factors,):
            raise InputError(
                f"Values must end in one column per factor ({', '.join(self.names)}). Got shape {tuple(values.shape)}."
            )
        return as_values(values)

    def checked_cells(self, cells: Int[Tensor, " cell"] | Sequence[int]) -> Int[Tensor, " cell"]:
        """Numbers of cells as a tensor; an error if there is no such cell."""
        chosen = torch.as_tensor(cells, dtype=torch.long)
        if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(self):
            raise InputError(f"Cells are numbered 0 … {len(self) - 1}. Got {chosen.tolist()}.")
        return chosen

    def positions(self, values: Real[Tensor, "*shape factor"]) -> Float[Tensor, "*shape factor"]:
        """Values counted in grid steps (differentiable)."""
        values = self.checked(values)
        return (values - self._lows(values)) / self._steps(values)

    def cells(self, values: Real[Tensor, "*shape factor"]) -> Int[Tensor, "*shape"]:
        """The cell nearest to each combination of values; values beyond the factor's range are an error."""
        exact = self.positions(values)
        positions = exact.round().long()
        flat = torch.zeros(positions.shape[:-1], dtype=torch.long, device=values.device)
        for axis, (name, factor) in enumerate(self.factors.items()):
            column = positions[..., axis]
            if factor.kind == "cyclic":
                column = column % factor.size
            elif factor.kind == "continuous":  # its range goes on for one step after the last grid value
                column = torch.where(exact[..., axis] < factor.size, column.clamp(max=factor.size - 1), factor.size)
            if column.numel() and (column.min() < 0 or column.max() >= factor.size):
                outside = values[..., axis][(column < 0) | (column >= factor.size)].flatten()[0].item()
                raise InputError(f"Factor {name!r} takes values {factor.range}. Got {outside:g} instead.")
            flat = flat * factor.size + column
        return flat

    def _lows(self, like: Tensor) -> Tensor:
        return torch.tensor([f.low for f in self.factors.values()], dtype=like.dtype, device=like.device)

    def _steps(self, like: Tensor) -> Tensor:
        return torch.tensor([f.step for f in self.factors.values()], dtype=like.dtype, device=like.device)
