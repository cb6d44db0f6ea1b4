"""One declaration of a component's parameters serves Python, configuration files and the command line.

A family (encodings, scenes, …) collects components by `kind`. The parameters of a component are those of its
constructor after the first one, which is the context it is built in (a space or a task); their annotations carry
types and ranges, their defaults are the defaults everywhere. Direct calls and configurations go through the same
validation, and every built component remembers the configuration that rebuilds it.

    ENCODINGS = Family("encoding", (FactorSpace,))

    @ENCODINGS.register("bump")
    class Bump(Encoding):
        def __init__(self, space: FactorSpace, width: Positive = 1.0): ...

    Bump(space, width=2.0).config                                  # {"kind": "bump", "width": 2.0}
    ENCODINGS.build({"kind": "bump", "width": 2.0}, space)         # the same thing

A configuration names its run, so a parameter that is added later must not rename the runs that do not use it. Mark it
`Annotated[int, Since(3)]`: while it has its introduction value it is left out of `Family.identity`. A parameter that
gives a location but does not change the result is marked `Annotated[str, NotIdentity()]` and always left out.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model, field_validator
from pydantic_core import ErrorDetails

from recombine.core import plugins
from recombine.core.errors import InputError, Problem

Count = Annotated[int, Field(ge=1, le=2**40)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Width = Annotated[float, Field(ge=1e-3, le=1e9, allow_inf_nan=False)]  # narrower: underflow to 0/0; wider: flat
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]

MOST_KEYS = 1000  # of a mapping in a configuration
MOST_NESTED = 100  # parts within parts; Python's own stack ends somewhere above
TOO_DEEP = (
    f"This is nested more than {MOST_NESTED} levels deep. Use a flat list instead, for example for the parts of any_of."
)

MOST_TOLD = 20  # mistakes in one parameter; a list may have thousands

T = TypeVar("T", bound=Callable[..., Any])

_IDENTITY: ContextVar[bool] = ContextVar("_IDENTITY", default=False)  # whether dumps leave out what names no run
_STORED: ContextVar[bool] = ContextVar("_STORED", default=False)  # whether the validated settings come from a file


@dataclass(frozen=True)
class Since:
    """Marks a parameter that was introduced after runs had been stored: `Annotated[int, Since(3)]`.

    Args:
        format: The first format of runs that has it.
        value: Its introduction value, as written in a canonical configuration, which reproduces earlier runs. By
            default the default of the parameter; set it if the default changes later.
    """

    format: int
    value: Any = ...


@dataclass(frozen=True)
class NotIdentity:
    """Marks a parameter that does not change what a run is, such as the place of a file whose hash is given."""


class Parameters(BaseModel):
    """Base of all configuration models: unknown keys and silent type changes are errors, nothing can be changed."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", strict=True)

    @field_validator("*")
    @classmethod
    def _zero_has_no_sign(cls, value: Any) -> Any:
        """Equal settings are written, and so named, alike: −0 is 0."""
        if isinstance(value, list):
            return [part + 0.0 if isinstance(part, float) else part for part in value]
        return value + 0.0 if isinstance(value, float) else value

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """The parameters as a dictionary; for an identity, without those that are not part of it."""
        dumped = super().model_dump(**options)
        if not _IDENTITY.get():
            return dumped
        later = introductions(type(self))
        fields = type(self).model_fields
        return {
            name: value
            for name, value in dumped.items()
            if not any(isinstance(mark, NotIdentity) for mark in fields[name].metadata)
            and not (name in later and later[name] == value)
        }


def introductions(model: type[BaseModel]) -> dict[str, Any]:
    """Introduction value of every parameter that is marked `Since`."""
    return {
        name: field.default if mark.value is ... else mark.value
        for name, field in model.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Since)
    }


@contextmanager
def reading_stored() -> Iterator[None]:
    """Inside, a parameter that a configuration lacks has its introduction value instead of today's default."""
    token = _STORED.set(True)
    try:
        yield
    finally:
        _STORED.reset(token)


class Family:
    """Components of one family, selected by `kind`.

    Attributes:
        components: Kind → class or function.
        models: Kind → the parameters it takes.
        origin: Kind → name of the plug-in that registered it; kinds of the package have no entry.
    """

    def __init__(self, name: str, context: tuple[type, ...] = ()) -> None:
        self.name = name
        self.context = context  # what the first argument may be (a space, a task) if it is no parameter
        self.components: dict[str, Callable[..., Any]] = {}
        self.models: dict[str, type[Parameters]] = {}
        self.origin: dict[str, str] = {}
        plugins.join(self)

    def discover(self) -> None:
        """All built-in kinds are known once the family's package is imported."""

    def has(self, kind: str) -> bool:
        return kind in self.models

    def remove(self, kind: str) -> None:
        """Forget a kind of a plug-in."""
        self.components.pop(kind, None)
        self.models.pop(kind, None)

    def register(self, kind: str) -> Callable[[T], T]:
        """Decorator that adds a class or function under `kind` and makes its calls validated.

        A class of parameters (a subclass of `Parameters`, such as a recipe) gets `kind` as a field if it lacks it.
        """

        def decorate(target: T) -> T:
            plugins.claim(self, kind)
            if isinstance(target, type) and issubclass(target, Parameters):
                made = _of_kind(target, kind)
                self.models[kind] = self.components[kind] = made
                return typing.cast("T", made)
            function: Callable[..., Any] = target.__init__ if isinstance(target, type) else target
            self.models[kind] = model = _model_of(function, kind, skip=isinstance(target, type) + bool(self.context))

            @functools.wraps(function)
            def validated(*args: Any, **keywords: Any) -> Any:
                context, parameters = _split(function, model, args, keywords)
                self._check_context(kind, context[isinstance(target, type) :])
                config = validate(model, {"kind": kind, **parameters}, where=f"{self.name} {kind!r}")
                built = function(*context, **{name: getattr(config, name) for name in parameters})
                owner = context[0] if isinstance(target, type) else built
                # set after the constructor returns, so that a subclass's own parameters win over its parent's
                owner.config = config.model_dump()
                return built

            if isinstance(target, type):
                target.__init__ = validated
                target.kind = kind  # type: ignore[attr-defined]
                self.components[kind] = target
                return typing.cast("T", target)
            self.components[kind] = validated
            return typing.cast("T", validated)

        return decorate

    def _check_context(self, kind: str, given: list[Any]) -> None:
        if self.context and not (given and isinstance(given[0], self.context)):
            wanted = " or ".join(expected.__name__ for expected in self.context)
            got = f"Got {given[0]!r} instead." if given else "It is missing."
            raise InputError(f"The first argument of {self.name} {kind!r} must be a {wanted}. {got}")

    def validate(self, config: Mapping[str, Any], prefix: str = "", beside: Sequence[str] = ()) -> Parameters:
        """Check a configuration of this family and fill in its defaults; all its errors are raised together.

        `prefix` ("decoder.") goes before the parameter names in messages; `beside` are other names that may be meant.
        """
        kind = config.get("kind")
        if isinstance(kind, str) and kind not in self.models:
            plugins.load_installed()
        if not isinstance(kind, str) or kind not in self.models:
            close = nearest(kind, self.models) if isinstance(kind, str) else ""
            raise InputError(
                f"There is no {self.name} of kind {kind!r}{close}. Kinds: {', '.join(self.models)}.", f"{prefix}kind"
            )
        plugins.mark_used(self.origin.get(kind))
        return validate(self.models[kind], config, f"{self.name} {kind!r}", prefix, ("kind", *beside))

    def identity(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The canonical configuration without settings that are not part of a run's identity, also in nested parts."""
        token = _IDENTITY.set(True)
        try:
            return self.validate(config).model_dump()
        finally:
            _IDENTITY.reset(token)

    def build(self, config: Mapping[str, Any], *context: Any) -> Any:
        """Build a component from a configuration, in a context if the family has one."""
        parameters = self.validate(config).model_dump(exclude={"kind"})
        return self.components[config["kind"]](*context, **parameters)


def member_of(family: Family) -> AfterValidator:
    """Makes a parameter a configuration of a family: `Annotated[dict[str, Any], member_of(HOLDOUTS)]`."""
    return AfterValidator(lambda part: family.validate(part).model_dump())


def import_members(package: str) -> None:
    """Import all modules of a package, so that the members of a family register themselves by being there."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)


def _of_kind(parameters: type[Parameters], kind: str) -> type[Parameters]:
    """The class itself if it has this `kind`, else a subclass that has."""
    known = parameters.model_fields.get("kind")
    if known is not None and known.default == kind:
        return parameters
    fields: dict[str, Any] = {"kind": (Literal[kind], kind)}
    return create_model(parameters.__name__, __base__=parameters, __doc__=parameters.__doc__, **fields)


def _model_of(function: Callable[..., Any], kind: str, skip: int) -> type[Parameters]:
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {"kind": (Literal[kind], kind)}
    for name, parameter in list(inspect.signature(function).parameters.items())[skip:]:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        if name not in hints:
            raise InputError(f"The parameter {name!r} of kind {kind!r} needs a type, such as {name}: int = 1.", name)
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[name] = (hints[name], default)
    return create_model(f"{kind}_parameters", __base__=Parameters, **fields)


def _split(
    function: Callable[..., Any], model: type[Parameters], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Separate the context (self, space, …) from the parameters; unknown keywords are left for validation to name."""
    unknown = {k: v for k, v in keywords.items() if k not in inspect.signature(function).parameters}
    bound = inspect.signature(function).bind_partial(*args, **{k: v for k, v in keywords.items() if k not in unknown})
    parameters = {k: _plain(v) for k, v in bound.arguments.items() if k in model.model_fields}
    context = [v for k, v in bound.arguments.items() if k not in model.model_fields]
    defaults = {k: f.default for k, f in model.model_fields.items() if k != "kind" and not f.is_required()}
    return context, {**defaults, **parameters, **unknown}


def _plain(value: Any) -> Any:
    """Tuples, arrays and NumPy numbers as the lists and numbers that a configuration holds."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], given: Mapping[str, Any], where: str, prefix: str = "", beside: Sequence[str] = ()) -> M:
    """Validate, turning all of pydantic's complaints into one error with a problem per parameter."""
    check_nesting(given)
    if _STORED.get():
        given = {**introductions(model), **given}
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        names = [name for name in (*model.model_fields, *beside) if name != "kind"]
        listed = f"Parameters: {', '.join(prefix + n for n in names)}." if names else "It takes no parameters."
        problems: list[Problem] = []
        for name, found in _by_name(error).items():
            key = prefix + name
            if found[0]["type"] == "extra_forbidden":
                close = nearest(name, [*names, *beside], prefix)
                problems.append(Problem(key, f"Unknown parameter {key!r} of {where}{close}. {listed}"))
            elif found[0]["type"] == "missing":
                problems.append(Problem(key, f"The {key!r} parameter of {where} is missing."))
            else:
                problems += explained(f"The {key!r} parameter of {where} is wrong", key, given.get(name), found)
        raise InputError.join(problems) from None


def check_nesting(given: Mapping[str, Any]) -> None:
    """Raise for nesting so deep that checking, copying or writing it would exceed Python's stack.

    Raise also for mappings with so many keys that a message about each of them would take minutes.
    """
    level: list[Any] = [given]
    for _ in range(MOST_NESTED + 2):  # a run has its groups around the parts
        large = next((outer for outer in level if isinstance(outer, Mapping) and len(outer) > MOST_KEYS), None)
        if large is not None:
            raise InputError(f"A configuration has {len(large)} keys side by side; at most {MOST_KEYS} are read.")
        level = [inner for outer in level for inner in _nested(outer)]
        if not level:
            return
    raise InputError(TOO_DEEP)


def _nested(outer: Mapping[str, Any] | list[Any]) -> Iterator[Mapping[str, Any] | list[Any]]:
    """The parts of a configuration, one by one or in lists."""
    for value in outer.values() if isinstance(outer, Mapping) else outer:
        if isinstance(value, Mapping):
            yield value
        elif isinstance(value, list):
            yield from (inner for inner in value if isinstance(inner, Mapping | list))


def _by_name(error: ValidationError) -> dict[str, list[ErrorDetails]]:
    """The problems of each parameter."""
    found: dict[str, list[ErrorDetails]] = {}
    for problem in error.errors():
        found.setdefault(str(problem["loc"][0]), []).append(problem)
    return found


def explained(wrong: str, key: str, value: Any, details: Iterable[ErrorDetails]) -> list[Problem]:
    """A problem per wrong entry of a parameter that is a list or has keys, else one: what, got, expected."""
    places: dict[tuple[int | str, ...], list[ErrorDetails]] = {}
    for detail in details:
        places.setdefault(_entry(value, detail["loc"][1:2]), []).append(detail)
    problems: list[Problem] = []
    for entry, found in places.items():
        at = "".join(f" at place {step + 1}" if isinstance(step, int) else f" at {step!r}" for step in entry)
        here = ".".join([key, *map(str, entry)])
        nested = found[-1].get("ctx", {}).get("error")
        if isinstance(nested, InputError):  # raised while a nested configuration was checked
            problems += [
                Problem(f"{here}.{inner}" if inner else here, f"{wrong}{at}: {line}")
                for inner, message in nested.problems
                for line in message.splitlines()
            ]
        elif found[-1]["type"] == "value_error":
            problems.append(Problem(here, f"{wrong}{at}: {nested}"))
        else:  # a value that fits none of several types has a problem with each
            what = ", or ".join(dict.fromkeys(_requirement(f) for f in found))
            problems.append(Problem(here, f"{wrong}{at}: {what}. Got {found[-1]['input']!r} instead."))
    more = len(problems) - MOST_TOLD
    return problems if more <= 0 else [*problems[:MOST_TOLD], Problem(key, f"{wrong} at {more} more places.")]


def _requirement(detail: ErrorDetails) -> str:
    """What a value should have been."""
    context = detail.get("ctx", {})
    for kind, bound, word in (("too_short", "min_length", "at least"), ("too_long", "max_length", "at most")):
        if detail["type"] == kind:
            count = context[bound]
            return f"it must have {word} {count} {'entry' if count == 1 else 'entries'}"
    return detail["msg"][0].lower() + detail["msg"][1:]


def _entry(value: Any, location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Which entry of a value; empty if it has none, and the location is one of the types that it may have."""
    inside = (isinstance(value, list) and all(isinstance(step, int) for step in location)) or (
        isinstance(value, Mapping) and all(step in value for step in location)
    )
    return location if inside else ()


def nearest(name: str, valid: Iterable[str], prefix: str = "") -> str:
    """' (did you mean …?)' for the closest valid name, shown after its prefix, or nothing."""
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.6)
    return f" (did you mean {prefix + close[0]!r}?)" if close else ""
