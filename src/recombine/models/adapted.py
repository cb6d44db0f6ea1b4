"""Adapters for models that take or return something other than tensors: they become modules from codes to a tensor.

    rc.adapt(vae.decode, output="sample")                      # returns a dataclass, dict or tuple
    rc.adapt(generator, noise=16)                              # generator(noise, code), with fixed noise
    rc.adapt(net, task, inputs="labels")                       # net(labels), integers (batch, factor)
    rc.adapt(net, space, inputs="labels")                      # the same for rc.diagnose, which needs no task
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

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from recombine.core.encodings import OneHot
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.registry import nearest
from recombine.core.seeds import generator
from recombine.core.task import Task

Key = str | int
Arguments = Tensor | tuple[Any, ...] | Mapping[str, Any]  # of a call: one argument, several, or keywords
Inputs = str | Sequence[str] | Mapping[str, str] | Callable[[Tensor], Arguments]
NOISE, CODE, LABELS, ONEHOT, VALUES = "noise", "code", "labels", "onehot", "values"
MOST_NAMED = 8
FEWEST = 2  # smallest batch that a model must accept


def adapt(
    model: nn.Module | Callable[..., Any],
    task: Task | FactorSpace | None = None,
    *,
    inputs: Inputs | None = None,
    noise: int | Sequence[int] | None = None,
    output: Key | None = None,
    seed: int = 0,
) -> Adapted:
    """Adapt a model to a module that maps the task's codes to one tensor.

    Args:
        model: A module, or a method of one.
        task: Needed for inputs other than the code and noise. For `rc.diagnose`, which knows the factor values of
            every code, the factor space is enough.
        inputs: The inputs of the model, by name: "code", "noise", "labels" (integers that count the values of every
            factor from 0, (batch, factor)), "onehot", "values", or a factor's name for its labels (batch,). A tuple of
            names gives several arguments, a mapping gives keywords. `inputs` can also be a function of the code that
            returns a tensor, a tuple or a mapping. The default is the code, after the noise if there is any.
        noise: Shape of the noise for one code. It is drawn once and is the same for all codes, so that outputs differ
            only by their codes; `draw` of the result returns a model with other noise.
        output: The part of the model's output to use: a key, an attribute or a position; "a.b" for b within a.
        seed: Seed of the noise.
    """
    return Adapted(model, task, inputs=inputs, noise=noise, output=output, seed=seed)


class Adapted(nn.Module):
    """A model adapted to a module from codes to one tensor. Created by `adapt`.

    Attributes:
        model: The module, or the owner of the method.
    """

    model: nn.Module

    def __init__(
        self,
        model: nn.Module | Callable[..., Any],
        task: Task | FactorSpace | None = None,
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
                "its layers. Pass the module that it calls, with inputs=… and output=…",
                "model",
            )
        self.model = owner
        self._method = model.__name__ if isinstance(model, MethodType) else None
        self._task = [task]  # in a list, so that nothing of the task becomes part of the module
        self._inputs = _checked_inputs(inputs, noise, task)
        self._noise_shape = None if noise is None else _shape(noise)
        self.output, self.seed, self.drawn = output, seed, draw

    @property
    def callable(self) -> Callable[..., Any]:
        """The callable: the module, or its method."""
        return self.model if self._method is None else getattr(self.model, self._method)

    @property
    def has_noise(self) -> bool:
        return self._noise_shape is not None

    def draw(self, number: int) -> Adapted:
        """The same model with other noise. Shares the weights."""
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
        """The arguments of the model for codes.

        Args:
            code: The task's codes.
            values: The factor values of the codes; by default decoded from the codes. Inputs computed from given values
                have derivatives with respect to them.
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
        values = self._decoded(code) if values is None else values
        if name == VALUES:
            return values
        space = _space_of(self._task[0])
        assert space is not None
        if name == ONEHOT:
            return OneHot(space)(values)
        labels = labels_of(space, values)
        return labels if name == LABELS else labels[:, space.names.index(name)]

    def _decoded(self, code: Tensor) -> Tensor:
        """The factor values of codes."""
        [task] = self._task
        if not isinstance(task, Task):
            raise InputError(
                "The model was adapted with a factor space, from which codes cannot be decoded. Use it in rc.diagnose, "
                "or pass the task: rc.adapt(model, task, …).",
                "task",
            )
        return task.encoding.decode(code)

    def forward(self, code: Shaped[Tensor, "batch ..."]) -> Tensor:
        return selected(call(self.callable, self.arguments(code)), self.output)

    def extra_repr(self) -> str:
        given = {"inputs": self._inputs, "noise": self._noise_shape, "output": self.output}
        return ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)


class Draws:
    """Several noise samples of a model, one after the other. Each is a function of the codes.

    An adapted model draws new noise. For other models, torch's seed is set at every call, which fixes the noise that
    they draw themselves.
    """

    def __init__(self, model: nn.Module, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"The number of draws must be an integer of at least 1. Got {count!r}.", "draws")
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
    """A model's outputs, checked to have the shape of the task's targets. A rejected batch is split in halves."""
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
            f"The model does not accept inputs of shape {tuple(inputs.shape)}: {refusal}. If it takes labels, noise or "
            "several arguments, see recombine.adapt.",
            "model",
        ) from refusal
    if not isinstance(outputs, Tensor):
        raise InputError(not_a_tensor(outputs), "output")
    raise InputError(
        f"For {count} inputs, the task requires outputs of shape {expected}. Got {tuple(outputs.shape)}.",
        "model",
    )


def labels_of(space: FactorSpace, values: Float[Tensor, "cell factor"]) -> Shaped[Tensor, "cell factor"]:
    """The index of each factor's grid value, counted from 0; for values in between, the nearest."""
    places = [factor.position(values[..., axis]) for axis, factor in enumerate(space.factors.values())]
    sizes = torch.tensor(space.shape, device=values.device)
    return torch.stack(places, -1).round().long().clamp(min=0).minimum(sizes - 1)


def call(model: Callable[..., Any], given: Arguments) -> Any:
    """Call a model with one argument, several (a tuple or list) or keywords (a mapping)."""
    if isinstance(given, Mapping):
        return model(**given)
    return model(*given) if isinstance(given, tuple | list) else model(given)


def selected(output: Any, key: Key | None) -> Any:
    """A part of a model's output, by key, attribute or position; the whole output for None.

    Raises:
        InputError: If there is no such part, or if an output with parts needs a key.
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
        raise InputError(f"output={key!r} is not a tensor. {not_a_tensor(found)}", "output")
    return found


def not_a_tensor(output: Any) -> str:
    """The message for an output that is not a tensor."""
    parts = [key for key, part in parts_of(output).items() if isinstance(part, Tensor)]
    if not parts:
        fix = " Return torch.from_numpy(array)." if isinstance(output, np.ndarray) else ""
        return f"The model's output must be a tensor with one entry per code. Got {_kind(output)}.{fix}"
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
        raise InputError(f"noise must be a shape, such as 16 or (4, 8, 8). Got {noise!r}.", "noise")
    return shape


def _space_of(task: Task | FactorSpace | None) -> FactorSpace | None:
    return task.space if isinstance(task, Task) else task


def _checked_inputs(inputs: Inputs | None, noise: Any, task: Task | FactorSpace | None) -> Inputs:
    if inputs is None:
        return CODE if noise is None else (NOISE, CODE)
    if callable(inputs):
        return inputs
    names = [inputs] if isinstance(inputs, str) else list(inputs.values() if isinstance(inputs, Mapping) else inputs)
    space = _space_of(task)
    known = [CODE, NOISE, LABELS, ONEHOT, VALUES, *(() if space is None else space.names)]
    for name in names:
        if name not in known:
            more = "; with a task also the names of its factors" if space is None else ""
            raise InputError(
                f"There is no input {name!r}{nearest(name, known)}. Inputs: {', '.join(known)}{more}.", "inputs"
            )
        if name not in (CODE, NOISE) and space is None:
            raise InputError(
                f"The input {name!r} is decoded from the task's code. Pass the task: rc.adapt(model, task, …); for "
                "rc.diagnose the factor space is enough.",
                "inputs",
            )
    if (NOISE in names) != (noise is not None):
        what = "Pass its shape, for example noise=16" if noise is None else "Add 'noise' to the inputs"
        raise InputError(f"Noise needs a shape and a place among the inputs. {what}.", "noise")
    return inputs


def class_name(model: nn.Module) -> str:
    """The name of a model's class; for an adapted model, the class of the original model."""
    return type(model.model if isinstance(model, Adapted) else model).__name__
