"""The public names of the package, and which of them lack documentation.

python -m tools.public_names      # lists them; exits with 1 if one has no docstring or is in no page of docs/api

Public are the names in `recombine.__all__`, and in turn those of its modules: what a module lists in `__all__`, or, if
it has no such list, the classes and functions it defines without a leading underscore. Public methods and properties of
a public class need a docstring of their own or of a base class.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import recombine

PAGES = Path(__file__).parents[1] / "docs" / "api"
DIRECTIVE = re.compile(r"^::: (\S+)", re.MULTILINE)


def modules() -> dict[str, ModuleType]:
    """Name in `recombine` → module, `recombine` itself included."""
    inner = {name: getattr(recombine, name) for name in recombine.__all__}
    return {"recombine": recombine, **{name: m for name, m in inner.items() if inspect.ismodule(m)}}


def public_names() -> dict[str, Any]:
    """`recombine.FactorSpace`, `holdouts.centre`, … → the class or function."""
    found = {}
    for prefix, module in modules().items():
        for name in _exported(module):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found[f"{prefix}.{name}"] = value
    return found


def _exported(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return [name for name in own if not name.startswith("_")]


def without_docstring() -> list[str]:
    """Public names, and public methods and properties of public classes, that have no docstring."""
    return sorted({name for public, value in public_names().items() for name in _undocumented(public, value)})


def _undocumented(name: str, value: Any) -> Iterator[str]:
    if not value.__doc__:
        yield name
    if not inspect.isclass(value):
        return
    for member, attribute in vars(value).items():
        function = attribute.fget if isinstance(attribute, property) else getattr(attribute, "__func__", attribute)
        own = inspect.isfunction(function) and not member.startswith("_")
        if own and not any(vars(base)[member].__doc__ for base in value.__mro__ if member in vars(base)):
            yield f"{name}.{member}"


def without_page() -> list[str]:
    """Public names that no page of docs/api renders, neither by the package that lists them nor by their module."""
    rendered = {target for page in PAGES.glob("*.md") for target in DIRECTIVE.findall(page.read_text("utf-8"))}
    homes = {name: module.__name__ for name, module in modules().items()}
    return [
        name
        for name, value in public_names().items()
        if not rendered & {value.__module__, f"{value.__module__}.{value.__name__}", homes[name.split(".")[0]]}
    ]


def problems() -> list[str]:
    """A line per name that is not documented as it should be."""
    return [f"{name} has no docstring" for name in without_docstring()] + [
        f"{name} is on no page of docs/api" for name in without_page()
    ]


if __name__ == "__main__":
    print(*public_names(), sep="\n")
    if found := problems():
        raise SystemExit("\n".join(found))
