"""Plug-ins: Python files and modules of the user that add kinds to families (scenes, decoders, metrics, …).

    rc.use("mine.py")            # or a module's name; on the command line: --plugin mine.py

A plug-in is code that runs. It is loaded only when the user asks for it: by `use`, by --plugin, or by installing a
package with an entry point in the group "recombine.plugins". Sweep files and stored runs name the plug-ins that they
need, with the hashes of their sources (`require` checks them); nothing that a file names is ever loaded.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import linecache
import re
import stat
import sys
import traceback
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn, Protocol, runtime_checkable

from recombine.core.errors import InputError, Problem

GROUP = "recombine.plugins"
MOST_BYTES = 10_000_000  # of a plug-in's file
KIND = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
OURS = "recombine"
PREFIX = "recombine_plugins."  # of the names under which files are kept in sys.modules


class PluginState(StrEnum):
    """The state of a required plug-in."""

    LOADED = "loaded"  # with the recorded source
    MISSING = "missing"  # not loaded
    CHANGED = "changed"  # loaded, but with another source
    BROKEN = "broken"  # raised while it was loaded


class PluginError(InputError):
    """A plug-in is missing, was changed or cannot be loaded.

    Attributes:
        states: Maps plug-ins to what is wrong with them.
    """

    def __init__(self, message: str, states: Mapping[str, PluginState]) -> None:
        super().__init__(message, "plugins")
        self.states = dict(states)


class PluginWarning(UserWarning):
    """An installed plug-in cannot be loaded, or a stored run was made with another version of a plug-in."""


@dataclass(frozen=True)
class Plugin:
    """A loaded plug-in.

    Attributes:
        name: A file's name without .py, or a module's dotted name.
        sha256: Of its source.
        path: The file as the user named it; empty for a module.
        content: The file's bytes as they were loaded, which workers get; empty for a module.
        kinds: The kinds it added, as (family, kind).
    """

    name: str
    sha256: str
    path: str = ""
    content: bytes = field(default=b"", repr=False)
    kinds: list[tuple[str, str]] = field(default_factory=list)


@runtime_checkable
class OpenFamily(Protocol):
    """What plug-ins need from a family. `origin` maps kinds that are not built in to their plug-in."""

    name: str
    origin: dict[str, str]

    def discover(self) -> None:
        """Load all built-in kinds."""
        ...

    def has(self, kind: str) -> bool: ...

    def remove(self, kind: str) -> None: ...


_families: list[OpenFamily] = []
_loaded: dict[str, Plugin] = {}
_loading: list[Plugin] = []
_installed = [False]  # whether entry points have been loaded
_used: ContextVar[set[str] | None] = ContextVar("used plug-ins", default=None)


def loaded() -> list[Plugin]:
    """The plug-ins in use, in the order in which they were loaded."""
    load_installed()
    return list(_loaded.values())


def use(source: str | Path) -> Plugin:
    """Load a plug-in, so that the kinds it registers are known. This runs its code.

    Args:
        source: A Python file ("mine.py"), or the name of a module that can be imported ("my_package.kinds"). A file is
            complete in itself: it imports installed packages, not its neighbours.

    A plug-in that is already loaded is not loaded again, unless its file has changed.

    Raises:
        PluginError: If it cannot be loaded; nothing of it stays registered.
    """
    word = str(source)
    if isinstance(source, Path) or word.endswith(".py") or "/" in word or "\\" in word:
        path = Path(source)
        return _run(path.stem, _read(path), word)
    return _import(word)


def load_installed() -> None:
    """Load the plug-ins of installed packages, once. One that cannot be loaded is skipped with a warning."""
    if _installed[0]:
        return
    _installed[0] = True
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            _import(entry.module)
        except PluginError as error:
            warnings.warn(f"The installed plug-in {entry.name!r} was skipped. {error}", PluginWarning, stacklevel=2)


# Loading


def _read(path: Path) -> bytes:
    if not NAME.fullmatch(path.stem) or path.suffix != ".py":
        raise PluginError(
            "A plug-in must be a module or a Python file such as mine.py, whose name consists of letters, digits, - "
            f"and _. Got {str(path)!r}.",
            {path.stem: PluginState.MISSING},
        )
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MOST_BYTES:
            raise PluginError(
                f"The plug-in {path} is not a regular file of at most {MOST_BYTES} bytes.",
                {path.stem: PluginState.MISSING},
            )
        return path.read_bytes()
    except OSError as error:
        raise PluginError(
            f"The plug-in {path} cannot be read: {error.strerror}.", {path.stem: PluginState.MISSING}
        ) from error


def _run(name: str, content: bytes, path: str) -> Plugin:
    """Execute a file's content as a plug-in."""
    plugin = Plugin(name, hashlib.sha256(content).hexdigest(), path, content)
    known = _loaded.get(name)
    if known is not None and known.sha256 == plugin.sha256:
        return known
    if known is not None and known.path != path:
        raise PluginError(
            f"A plug-in named {name!r} is already loaded from {known.path or 'a module'}. Rename {path}.",
            {name: PluginState.CHANGED},
        )
    if known is not None:
        _unload(known)
    module = types.ModuleType(PREFIX + name)
    module.__file__ = path
    linecache.cache[path] = (len(content), None, content.decode(errors="replace").splitlines(keepends=True), path)
    sys.modules[module.__name__] = module
    with _adding(plugin, path):
        exec(compile(content, path, "exec", dont_inherit=True), module.__dict__)
    return plugin


def _import(name: str) -> Plugin:
    """Import a module as a plug-in."""
    if name in _loaded:
        return _loaded[name]
    if not all(part.isidentifier() for part in name.split(".")) or name.split(".")[0] == OURS:
        raise PluginError(
            f"A plug-in must be a Python file such as mine.py, or the name of a module. Got {name!r}.",
            {name: PluginState.MISSING},
        )
    imported = name in sys.modules
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None:
        close = f" There is a file {name}.py. Use --plugin {name}.py." if Path(f"{name}.py").is_file() else ""
        raise PluginError(
            f"There is no module {name!r} to load as a plug-in.{close or ' Install it, or give the path of a file.'}",
            {name: PluginState.MISSING},
        )
    plugin = Plugin(name, _module_hash(name, spec.origin))
    with _adding(plugin, spec.origin or name):
        importlib.import_module(name)
    if imported:  # its kinds were registered when it was imported
        _adopt(plugin)
    return plugin


def _module_hash(name: str, origin: str | None) -> str:
    """Of a module's file, or of all Python files of a package."""
    if origin is None or not Path(origin).is_file():
        raise PluginError(f"The module {name!r} has no source file.", {name: PluginState.MISSING})
    file = Path(origin)
    if file.name != "__init__.py":
        return hashlib.sha256(file.read_bytes()).hexdigest()
    total = hashlib.sha256()
    for part in sorted(file.parent.rglob("*.py")):
        total.update(f"{part.relative_to(file.parent).as_posix()} ".encode())
        total.update(hashlib.sha256(part.read_bytes()).digest())
    return total.hexdigest()


@contextlib.contextmanager
def _adding(plugin: Plugin, file: str) -> Iterator[None]:
    """Code in this context registers kinds for the plug-in; if it raises, none of them stays."""
    _loading.append(plugin)
    try:
        yield
    except (Exception, SystemExit) as error:
        _unload(plugin)
        _broken(plugin.name, file, error)
    else:
        _loaded[plugin.name] = plugin
    finally:
        _loading.pop()


def _broken(name: str, file: str, error: BaseException) -> NoReturn:
    """Say which line of a plug-in raised what."""
    if isinstance(error, SyntaxError) and error.filename == file:
        line = error.lineno
    else:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == file), None)
    place = f", line {line}" if line is not None else ""
    what = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    hint = ""
    if isinstance(error, ModuleNotFoundError) and error.name and Path(file).with_name(f"{error.name}.py").is_file():
        hint = (
            f" A plug-in cannot import files next to it. Move the code of {error.name}.py into the plug-in, or turn "
            "both into a package."
        )
    raise PluginError(f"The plug-in {file}{place}: {what}{hint}", {name: PluginState.BROKEN}) from error


def _unload(plugin: Plugin) -> None:
    """Remove everything that a plug-in registered."""
    for family in _families:
        for kind in [kind for kind, origin in family.origin.items() if origin == plugin.name]:
            family.remove(kind)
            family.origin.pop(kind, None)
    _loaded.pop(plugin.name, None)
    if plugin.path:
        sys.modules.pop(PREFIX + plugin.name, None)


def _adopt(plugin: Plugin) -> None:
    """Kinds that a module registered when it was imported, before it was used as a plug-in, become the plug-in's."""
    for family in _families:
        for kind, origin in family.origin.items():
            if origin == plugin.name or origin.startswith(f"{plugin.name}."):
                family.origin[kind] = plugin.name
                plugin.kinds.append((family.name, kind))


# for families


def join(family: OpenFamily) -> None:
    """Called by a family when it is created."""
    _families.append(family)


def claim(family: OpenFamily, kind: str) -> None:
    """Called by a family before it adds a kind. Records its origin. Raises if the kind is taken.

    What is registered outside a plug-in and outside this package (in a notebook, say) is recorded under the name of
    its module, and may be registered again from there.
    """
    if not KIND.fullmatch(kind):
        raise InputError(f"A kind must start with a letter and consist of letters, digits, - and _. Got {kind!r}.")
    module = _registrant()
    built_in = module.split(".")[0] == OURS
    owner = "" if built_in else _loading[-1].name if _loading else module
    if not built_in:
        family.discover()
    if family.has(kind):
        taken_by = family.origin.get(kind, "")
        if owner != taken_by or _loading:
            whose = f"from the plug-in {taken_by!r}" if taken_by else "built in"
            raise InputError(
                f"There is already a {family.name} of kind {kind!r}, {whose}. Choose another kind.", f"{family.name}"
            )
        family.remove(kind)
    if owner:
        family.origin[kind] = owner
        if _loading:
            _loading[-1].kinds.append((family.name, kind))


def _registrant() -> str:
    """The name of the module whose code, run at its top level, registers something."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            return str(frame.f_globals.get("__name__", "__main__"))
        frame = frame.f_back
    return "__main__"


# for runs and sweeps


def mark_used(origin: str | None) -> None:
    """Called by a family when a kind is looked up: while uses are recorded, its plug-in counts as needed."""
    used = _used.get()
    if used is not None and origin:
        used.add(origin)


@contextlib.contextmanager
def recording() -> Iterator[set[str]]:
    """The plug-ins of all kinds that are looked up inside.

    with recording() as names:
        RunConfig.from_dict(given)
    """
    names: set[str] = set()
    token = _used.set(names)
    try:
        yield names
    finally:
        _used.reset(token)


def in_use() -> bool:
    """Whether any kind is not built in."""
    return any(family.origin for family in _families)


def hashes(names: set[str] | Sequence[str]) -> dict[str, str]:
    """Plug-in → sha256, as run.json and sweep.json record them; empty for what no plug-in registered."""
    return {name: _loaded[name].sha256 if name in _loaded else "" for name in sorted(names)}


def states(needed: Mapping[str, str]) -> dict[str, PluginState]:
    """The states of required plug-ins (plug-in → sha256, or an empty text if unknown)."""
    load_installed()
    found: dict[str, PluginState] = {}
    for name, sha256 in needed.items():
        if name not in _loaded:
            here = not sha256 and any(name in family.origin.values() for family in _families)
            found[name] = PluginState.LOADED if here else PluginState.MISSING
        else:
            same = sha256 in ("", _loaded[name].sha256)
            found[name] = PluginState.LOADED if same else PluginState.CHANGED
    return found


def problems(needed: Mapping[str, str], what: str) -> list[Problem]:
    """Describe what is wrong with the required plug-ins."""
    told = {
        PluginState.MISSING: "needs the plug-in {name!r}, which is not loaded. Load it with --plugin or rc.use.",
        PluginState.CHANGED: "was made with another version of the plug-in {name!r} (sha256 {there}…, here {here}…).",
    }
    return [
        Problem("plugins", f"{what} {told[state].format(name=name, there=needed[name][:12], here=_sha(name)[:12])}")
        for name, state in states(needed).items()
        if state in told
    ]


def recorded(facts: Mapping[str, Any]) -> dict[str, str]:
    """The plug-ins recorded in run.json or sweep.json. Invalid entries are skipped."""
    given = facts.get("plugins")
    entries = given.items() if isinstance(given, Mapping) else ()
    return {n: s for n, s in entries if isinstance(n, str) and isinstance(s, str) and NAME.fullmatch(n)}


def require_present(needed: Mapping[str, str], what: str) -> None:
    """Raise a PluginError if a plug-in that something needs is missing; warn if it was changed."""
    found = states(needed)
    require({name: "" for name, state in found.items() if state == PluginState.MISSING}, what)
    for name, state in found.items():
        if state == PluginState.CHANGED:
            warnings.warn(
                f"The plug-in {name!r} was changed after it was used for stored runs (sha256 {needed[name][:12]}… "
                f"then, {_sha(name)[:12]}… now). New results may not match the stored ones.",
                PluginWarning,
                stacklevel=3,
            )


def require(needed: Mapping[str, str], what: str) -> None:
    """Raise a PluginError if a plug-in that something needs is missing or changed."""
    found = problems(needed, what)
    if found:
        wrong = {name: state for name, state in states(needed).items() if state != PluginState.LOADED}
        raise PluginError("\n".join(problem.message for problem in found), wrong)


def require_shippable(needed: Mapping[str, str]) -> None:
    """Raise if another process could not know a kind: one that was registered in this one, but not by a plug-in."""
    here = sorted(name for name in needed if name not in _loaded)
    if here:
        raise PluginError(
            f"Workers cannot load the kinds that were registered in {', '.join(here)}. Move them into a file, and "
            "load it with --plugin or rc.use.",
            dict.fromkeys(here, PluginState.MISSING),
        )


def _sha(name: str) -> str:
    return _loaded[name].sha256 if name in _loaded else ""


# for workers


def shipped() -> list[dict[str, Any]]:
    """The plug-ins in use as JSON data for `receive`: files with their content, modules by name."""
    return [
        {"name": p.name, "sha256": p.sha256, "path": p.path, "content": base64.b64encode(p.content).decode()}
        for p in loaded()
    ]


def receive(given: Sequence[Mapping[str, Any]]) -> None:
    """Load the plug-ins that the driver of a sweep uses, exactly as it loaded them; called by its workers.

    The content of files comes from the driver: it is what the user passed there, whatever the file holds by now.
    """
    for entry in given:
        name, sha256 = entry["name"], entry["sha256"]
        if entry["path"]:
            _run(name, base64.b64decode(entry["content"]), entry["path"])
        elif _import(name).sha256 != sha256:
            raise PluginError(
                f"The module {name!r} differs between this worker's machine and the driver's. Install the same version "
                "on all machines.",
                {name: PluginState.CHANGED},
            )
