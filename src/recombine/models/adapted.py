"""A model that takes or returns something else than tensors, seen as a module from codes to one tensor.

    rc.adapt(vae.decode, output="sample")                      # returns a dataclass, dict or tuple
    rc.adapt(generator, noise=16)                              # generator(noise, code), with fixed noise
    rc.adapt(net, task, inputs="labels")                       # net(labels), whole numbers (batch, factor)
    rc.adapt(net, task, inputs={"z": "noise", "y": "labels"}, noise=16)
    rc.adapt(net, inputs=lambda code: {"inputs_embeds": code})

The adapted model is trained, scored, diagnosed and saved like any other. Its layers keep their names in a diagnosis.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MethodType
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from recombine.core.encodings import OneHot
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.seeds import generator
from recombine.core.task import Task

Key = str | int
Arguments = Tensor | tuple[Any, ...] | Mapping[str, Any]  # of a call: one argument, several, or keywords
Inputs = str | Sequence[str] | Mapping[str, str] | Callable[[Tensor], Arguments]
NOISE, CODE, LABELS, ONEHOT, VALUES = "noise", "code", "labels", "onehot", "values"
MOST_NAMED = 8
FEWEST = 2  # inputs that a model must take at once


def adapt(
    model: nn.Module | Callable[..., Any],
    task: Task | None = None,
    *,
    inputs: Inputs | None = None,
    noise: int | Sequence[int] | None = None,
    output: Key | None = None,
    seed: int = 0,
) -> Adapted:
    """See a model as a module from the task's codes to one tensor.

    Args:
        model: A module, or a method of one.
        task: Needed for inputs other than the code and noise.
        inputs: What the model is called with, by name: "code", "noise", "labels" (whole numbers that count the values
            of every factor from 0, (batch, factor)), "onehot", "values", or a factor's name for its labels (batch,).
            A tuple of names stands for several arguments, a mapping for keywords. Or a function of the code that
            returns a tensor, a tuple or a mapping. The code, after the noise if there is any, unless given.
        noise: Shape of the noise for one code. It is drawn once and is the same for all codes, so that outputs differ
            by their codes only; `draw` of the result gives other noise.
        output: Which part of what the model returns: a key, an attribute or a position; "a.b" for b within a.
        seed: Of the noise.
    """
    return Adapted(model, task, inputs=inputs, noise=noise, output=output, seed=seed)


class Adapted(nn.Module):
    """A model seen as a module from codes to one tensor. Made by `adapt`, see there.

    Attributes:
        model: The module, or the owner of the method.
    """

    model: nn.Module

    def __init__(
        self,
        model: nn.Module | Callable[..., Any],
        task: Task | None = None,
        *,
        inputs: Inputs | None = None,
        noise: int | Sequence[int] | None = None,
        output: Key | None = None,
        seed: int = 0,
        draw: int = 0,
    ) -> None:
        super().__init__()
        owner = model.__self__ if isinstance(model, MethodType) else model
        if not isinstance(owner, nn.Module):
            raise InputError(
                f"Only an nn.Module or a method of one can be adapted. Got {type(model).__name__}. A function hides "
                "the layers: give the module that it calls, with inputs=… and output=…",
                "model",
            )
        self.model = owner
        self._method = model.__name__ if isinstance(model, MethodType) else None
        self._task = [task]  # in a list: nothing of a task belongs to the module
        self._inputs = _checked_inputs(inputs, noise, task)
        self._noise_shape = None if noise is None else _shape(noise)
        self.output, self.seed, self.drawn = output, seed, draw

    @property
    def callable(self) -> Callable[..., Any]:
        """What is called: the module, or its method."""
        return self.model if self._method is None else getattr(self.model, self._method)

    @property
    def has_noise(self) -> bool:
        return self._noise_shape is not None

    def draw(self, number: int) -> Adapted:
        """The same model with other noise; shares the weights."""
        return Adapted(
            self.callable, self._task[0], inputs=self._inputs, noise=self._noise_shape, output=self.output,
            seed=self.seed, draw=number,
        )  # fmt: skip

    def noise(self, count: int, like: Tensor) -> Float[Tensor, "batch ..."]:
        """The noise, the same for `count` codes."""
        assert self._noise_shape is not None
        drawn = torch.randn(self._noise_shape, generator=generator(self.seed, NOISE, self.drawn))
        dtype = like.dtype if like.is_floating_point() else drawn.dtype
        return drawn.to(like.device, dtype).expand(count, *self._noise_shape)

    def arguments(
        self, code: Shaped[Tensor, "batch ..."], values: Float[Tensor, "batch factor"] | None = None
    ) -> Arguments:
        """What the model is called with for codes.

        Args:
            code: The task's codes.
            values: The factor values they stand for, read off the codes unless given. Inputs made from given values
                have derivatives by them.
        """
        spec = self._inputs
        if callable(spec):
            return spec(code)
        if isinstance(spec, str):
            return self._input(spec, code, values)
        if isinstance(spec, Mapping):
            return {keyword: self._input(name, code, values) for keyword, name in spec.items()}
        return tuple(self._input(name, code, values) for name in spec)

    def _input(self, name: str, code: Tensor, values: Tensor | None) -> Tensor:
        if name == CODE:
            return code
        if name == NOISE:
            return self.noise(len(code), code)
        [task] = self._task
        assert task is not None
        values = task.encoding.decode(code) if values is None else values
        if name == VALUES:
            return values
        if name == ONEHOT:
            return OneHot(task.space)(values)
        labels = labels_of(task.space, values)
        return labels if name == LABELS else labels[:, task.space.names.index(name)]

    def forward(self, code: Shaped[Tensor, "batch ..."]) -> Tensor:
        return selected(call(self.callable, self.arguments(code)), self.output)

    def extra_repr(self) -> str:
        given = {"inputs": self._inputs, "noise": self._noise_shape, "output": self.output}
        return ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)


class Draws:
    """Several draws of a model's noise, one after the other; each is a function of the codes.

    The noise of an adapted model is drawn anew. For other models torch's seed is set at every call, which fixes the
    noise that they draw themselves.
    """

    def __init__(self, model: nn.Module, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"The draws must be a whole number, at least 1. Got {count!r}.", "draws")
        self.model, self.count = model, count

    def __iter__(self) -> Iterator[Callable[[Tensor], Any]]:
        if self.count == 1:
            yield self.model
            return
        for number in range(self.count):
            if isinstance(self.model, Adapted) and self.model.has_noise:
                yield self.model.draw(number)
            else:
                yield functools.partial(self._seeded, number)

    def _seeded(self, number: int, code: Tensor) -> Any:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(generator(0, "draw", number).initial_seed())
            return self.model(code)


def outputs_for(model: Callable[[Tensor], Any], task: Task, inputs: Tensor) -> Tensor:
    """A model's outputs, if they have the shape of the task's targets. A refused batch is given in halves."""
    count, expected = len(inputs), (len(inputs), *task.target_shape)
    refusal: Exception | None = None
    outputs: Any = None
    try:
        outputs = model(inputs)
    except InputError:
        raise
    except Exception as error:
        refusal = error
    if isinstance(outputs, Tensor) and tuple(outputs.shape) == expected:
        return outputs
    if count > FEWEST and (refusal is not None or (isinstance(outputs, Tensor) and len(outputs) != count)):
        return torch.cat([outputs_for(model, task, half) for half in inputs.tensor_split(2)])
    if refusal is not None:
        raise InputError(
            f"The model does not take inputs of shape {tuple(inputs.shape)}: {refusal}. If it wants labels, noise or "
            "several arguments, see recombine.adapt.",
            "model",
        ) from refusal
    if not isinstance(outputs, Tensor):
        raise InputError(not_a_tensor(outputs), "output")
    raise InputError(
        f"The model must turn {count} inputs into outputs of shape {expected}, as the task has them. "
        f"Got {tuple(outputs.shape)}.",
        "model",
    )


def labels_of(space: FactorSpace, values: Float[Tensor, "cell factor"]) -> Shaped[Tensor, "cell factor"]:
    """Which value of its grid each factor has, counted from 0; of values between, the nearest."""
    places = [factor.position(values[..., axis]) for axis, factor in enumerate(space.factors.values())]
    sizes = torch.tensor(space.shape, device=values.device)
    return torch.stack(places, -1).round().long().clamp(min=0).minimum(sizes - 1)


def call(model: Callable[..., Any], given: Arguments) -> Any:
    """Call a model with one argument, several (a tuple or list) or keywords (a mapping)."""
    if isinstance(given, Mapping):
        return model(**given)
    return model(*given) if isinstance(given, tuple | list) else model(given)


def selected(output: Any, key: Key | None) -> Any:
    """A part of what a model returned, by key, attribute or position; all of it for None.

    Raises:
        InputError: if there is none, with those there are; and if no key is given for something that has parts.
    """
    if key is None:
        if isinstance(output, Tensor):
            return output
        raise InputError(not_a_tensor(output), "output")
    found = output
    for word in _path(output, key):
        parts = parts_of(found)
        if word not in parts and not (isinstance(word, str) and hasattr(found, word)):
            known = ", ".join(map(repr, parts)) or "none"
            raise InputError(f"The model's output ({_kind(found)}) has no part {word!r}. Parts: {known}.", "output")
        found = parts[word] if word in parts else getattr(found, str(word))
    if not isinstance(found, Tensor):
        raise InputError(f"output={key!r} is no tensor. {not_a_tensor(found)}", "output")
    return found


def not_a_tensor(output: Any) -> str:
    """What to do with an output that is no tensor."""
    parts = [key for key, part in parts_of(output).items() if isinstance(part, Tensor)]
    if not parts:
        return f"The model's output must be a tensor with one entry per code. Got {_kind(output)}."
    named = ", ".join(map(repr, parts[:MOST_NAMED]))
    return f"The model returned {_kind(output)} with the tensors {named}. Choose one, for example output={parts[0]!r}."


def _kind(output: Any) -> str:
    return f"an object of type {type(output).__name__}" if output is not None else "None"


def _path(output: Any, key: Key) -> list[Key]:
    if isinstance(key, int) or key in parts_of(output) or hasattr(output, key):
        return [key]
    return list(key.split("."))


def parts_of(output: Any) -> dict[Key, Any]:
    """The parts of a mapping, a dataclass, a named tuple, a tuple or a list."""
    if isinstance(output, Mapping):
        return dict(output)
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return {field.name: getattr(output, field.name, None) for field in dataclasses.fields(output)}
    if isinstance(output, tuple | list):
        names = getattr(output, "_fields", ())
        return {**dict(zip(names, output)), **dict(enumerate(output))}
    return {}


def _shape(noise: int | Sequence[int]) -> tuple[int, ...]:
    shape = (noise,) if isinstance(noise, int) else tuple(noise)
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in shape):
        raise InputError(f"The noise is given by its shape, such as 16 or (4, 8, 8). Got {noise!r}.", "noise")
    return shape


def _checked_inputs(inputs: Inputs | None, noise: Any, task: Task | None) -> Inputs:
    if inputs is None:
        return CODE if noise is None else (NOISE, CODE)
    if callable(inputs):
        return inputs
    names = [inputs] if isinstance(inputs, str) else list(inputs.values() if isinstance(inputs, Mapping) else inputs)
    factors = () if task is None else task.space.names
    known = [CODE, NOISE, LABELS, ONEHOT, VALUES, *factors]
    for name in names:
        if name not in known and task is not None:
            raise InputError(f"There is no input {name!r}. Inputs: {', '.join(known)}.", "inputs")
        if name not in (CODE, NOISE) and task is None:
            raise InputError(f"The input {name!r} is read off the task's code: rc.adapt(model, task, …).", "inputs")
    if (NOISE in names) != (noise is not None):
        wrong = "noise=16 gives its shape" if noise is None else 'the inputs do not name "noise"'
        raise InputError(f"Noise needs a shape and a place among the inputs, and {wrong}.", "noise")
    return inputs


def class_name(model: nn.Module) -> str:
    """The name of a model's class; of an adapted model, that of the model itself."""
    return type(model.model if isinstance(model, Adapted) else model).__name__
