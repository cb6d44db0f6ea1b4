"""Codes of any structure (tuples, mappings, labels, noise), represented as one tensor per cell.

    model, encode = as_tensors(generator, space, lambda values: (noise.expand(len(values), -1), code(values)))
    encode(values)          # (cell, …): the entries that differ between cells
    model(encode(values))   # calls generator(noise, code) and selects its output

If the code is a tensor and the model returns a tensor, both stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.core.encodings import ENCODINGS
from recombine.core.errors import InputError, RecombineError
from recombine.core.factors import FactorSpace
from recombine.core.seeds import generator
from recombine.models.adapted import LABELS, VALUES, Adapted, Key, call, labels_of, selected

Encode = Callable[[Tensor], Any]


def named_encoding(name: str, space: FactorSpace) -> Encode:
    """An input by its name: "labels" (integers (cell, factor) from 0), "values", or the kind of an encoding."""
    if name == LABELS:
        return lambda values: labels_of(space, values)
    if name == VALUES:
        return lambda values: values
    if name not in ENCODINGS.models:
        known = ", ".join([LABELS, VALUES, *ENCODINGS.models])
        raise InputError(f"There is no encoding {name!r}. Give a function of factor values, or one of {known}.")
    return ENCODINGS.build({"kind": name}, space)


@dataclass(frozen=True)
class Leaf:
    """One tensor of a code.

    Attributes:
        path: Its position in the structure: keys and indices, from the outermost.
        shape: Shape for one cell.
        dtype: Its type.
        shared: Its content, if all cells share it because it was expanded over them, like fixed noise.
    """

    path: tuple[Key, ...]
    shape: tuple[int, ...]
    dtype: torch.dtype
    shared: Tensor | None


@dataclass(frozen=True)
class Structure:
    """The structure of a code: its tensors, their tuples and mappings, and which of them differ between cells."""

    form: Any  # tuples, lists and mappings with the numbers of leaves in them
    leaves: tuple[Leaf, ...]

    @property
    def varying(self) -> list[Leaf]:
        return [leaf for leaf in self.leaves if leaf.shared is None]

    @property
    def integers(self) -> torch.dtype | None:
        """The type of a leaf that differs between cells and has no derivative; None if there is none."""
        return next((leaf.dtype for leaf in self.varying if not leaf.dtype.is_floating_point), None)

    def flat(self, code: Any) -> Shaped[Tensor, "cell ..."]:
        """The entries that differ between cells: the only such tensor unchanged, or all of them concatenated."""
        parts = [_at(code, leaf.path) for leaf in self.varying]
        if len(parts) == 1:
            return parts[0]
        floats = [part.dtype for part in parts if part.is_floating_point()]
        dtype = floats[0] if floats else parts[0].dtype
        return torch.cat([part.reshape(len(part), -1).to(dtype) for part in parts], -1)

    def code(self, flat: Shaped[Tensor, "cell ..."]) -> Any:
        """Rebuild the code."""
        tensors: list[Tensor] = []
        start = 0
        for leaf in self.leaves:
            if leaf.shared is not None:
                floating = leaf.dtype.is_floating_point and flat.is_floating_point()
                one = leaf.shared.to(flat.device, flat.dtype if floating else leaf.dtype)
                tensors.append(one.expand(len(flat), *leaf.shape))
            elif len(self.varying) == 1:
                tensors.append(flat)
            else:
                size = int(torch.Size(leaf.shape).numel())
                part = flat[:, start : start + size].reshape(len(flat), *leaf.shape)
                start += size
                tensors.append(part if leaf.dtype.is_floating_point else part.round().to(leaf.dtype))
        return _filled(self.form, tensors)


def structure_of(code: Any, count: int) -> Structure:
    """The structure of a code for `count` cells, at least two.

    Raises:
        InputError: if it contains anything other than tensors with one entry per cell, or nothing that differs between
            cells.
    """
    leaves: list[Leaf] = []

    def walk(part: Any, path: tuple[Key, ...]) -> Any:
        if isinstance(part, Mapping):
            return {key: walk(value, (*path, key)) for key, value in part.items()}
        if isinstance(part, tuple | list):
            return tuple(walk(value, (*path, i)) for i, value in enumerate(part))
        if not isinstance(part, Tensor) or part.ndim == 0 or len(part) != count:
            got = f"shape {tuple(part.shape)}" if isinstance(part, Tensor) else type(part).__name__
            where = "" if not path else f" at {'.'.join(map(str, path))}"
            raise InputError(
                f"`encode` must map the factor values of {count} cells to a tensor with {count} codes, or to a tuple "
                f"or a mapping of such tensors. Got {got}{where}. Expand inputs that are the same for all cells, for "
                "example noise.expand(len(values), -1)."
            )
        shared = part[0].detach().clone() if part.stride(0) == 0 else None
        leaves.append(Leaf(path, tuple(part.shape[1:]), part.dtype, shared))
        return len(leaves) - 1

    found = Structure(walk(code, ()), tuple(leaves))
    if not found.varying:
        raise InputError("All cells have the same code, because `encode` expands one code over all cells.")
    return found


def _at(code: Any, path: Sequence[Key]) -> Any:
    for key in path:
        code = code[key]
    return code


def _filled(form: Any, tensors: Sequence[Tensor]) -> Any:
    if isinstance(form, Mapping):
        return {key: _filled(part, tensors) for key, part in form.items()}
    return tuple(_filled(part, tensors) for part in form) if isinstance(form, tuple) else tensors[form]


@dataclass(frozen=True)
class TensorModel:
    """A model as a function from one tensor per cell to one tensor. Its layers are those of `model`.

    Attributes:
        model: The model that is called.
        structure: The structure of its codes.
        output: The part of its return value that is the output.
        noise_seed: Torch's seed at every call, which fixes noise that the model draws itself; None to leave it.
        most_cells: Largest batch that it accepts; None if it did not reject any.
    """

    model: Callable[..., Any]
    structure: Structure
    output: Key | None
    noise_seed: int | None = None
    most_cells: int | None = None

    def __call__(self, flat: Shaped[Tensor, "cell ..."]) -> Tensor:
        if self.noise_seed is not None:
            torch.manual_seed(self.noise_seed)
        return selected(call(self.model, self.structure.code(flat)), self.output)


@dataclass(frozen=True)
class TensorEncode:
    """An encoding as a function from factor values to one tensor per cell."""

    encode: Encode
    structure: Structure
    noise_seed: int | None = None

    @property
    def code_dtype(self) -> torch.dtype | None:
        """The type of the entries that differ between cells, if it has no derivative."""
        return self.structure.integers

    def __call__(self, values: Float[Tensor, "cell factor"]) -> Shaped[Tensor, "cell ..."]:
        if self.noise_seed is not None:
            torch.manual_seed(self.noise_seed)
        return self.structure.flat(self.encode(values))


@dataclass(frozen=True)
class Given:
    """A model, its encoding and its calling convention, as passed by the user.

    Attributes:
        model: The model, adapted or not.
        space: The factor space.
        encode: Factor values → code of any structure, its name, or None for the values themselves.
        output: The part of the model's return value that is the output.
        values: Factor values of a few cells that exist.
        seed: Seed of the noise.
        several: Whether there are several draws, so that noise that the model draws itself has to be fixed.
        most_cells: Largest batch that the model accepts, if it rejects larger ones.
    """

    model: Any
    space: FactorSpace
    encode: Encode | str | None
    output: Key | None
    values: Float[Tensor, "cell factor"]
    seed: int = 0
    several: bool = False
    most_cells: int | None = None

    def draw(self, number: int = 0) -> tuple[Any, Encode | None]:
        """Model and encoding as functions of tensors, with one draw of the noise; unchanged if they already are."""
        model, output = self.model, self.output
        encode = named_encoding(self.encode, self.space) if isinstance(self.encode, str) else self.encode
        if isinstance(model, Adapted):
            adapted = model.draw(number) if number else model
            model, output = adapted.callable, adapted.output if output is None else output
            encode = _arguments(adapted, encode)
        seed = generator(self.seed, "draw", number).initial_seed() if self.several else None
        trial = self.values if encode is None else tried(encode, self.values)
        structure = structure_of(trial, len(self.values))
        plain = isinstance(trial, Tensor) and structure.leaves[0].shared is None
        if plain and output is None and seed is None and self.most_cells is None and model is self.model:
            return model, encode
        seen = TensorModel(model, structure, output, seed, self.most_cells)
        return seen, TensorEncode(encode or _same, structure, seed)


def _same(values: Tensor) -> Tensor:
    return values


def _arguments(adapted: Adapted, encode: Encode | None) -> Encode:
    """The arguments that an adapted model passes to its inner model for factor values."""
    return lambda values: adapted.arguments(values if encode is None else encode(values), values)


def tried(encode: Encode, values: Tensor) -> Any:
    """The codes of factor values. An error of the user's function becomes an `InputError`."""
    try:
        return encode(values)
    except RecombineError:
        raise
    except Exception as error:
        raise InputError(
            f"`encode` failed on factor values of shape {tuple(values.shape)} and type {values.dtype}: "
            f"{type(error).__name__}: {error}."
        ) from error
