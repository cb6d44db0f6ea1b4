"""The blocks of a sweep's specification as written: axes, conditional entries and exclusions, with their positions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recombine.core.errors import InputError
from recombine.core.registry import nearest
from recombine.core.words import plain_value
from recombine.runs.config import DEFAULTS
from recombine.sweeps.spec.values import split_values
from recombine.sweeps.spec.yaml_nodes import Node, Problems, read_yaml

PARTS = ("plugins", "base", "grid", "zip", "list", "when", "exclude")


@dataclass(frozen=True)
class Setting:
    """A key, its value, and the position where it was written."""

    key: str
    value: Any
    place: str

    @property
    def word(self) -> str:
        """The setting as a key=value word."""
        return f"{self.key}={json.dumps(self.value)}"


Choice = tuple[Setting, ...]  # settings that are applied together
Axis = list[Choice]  # alternatives


@dataclass
class Condition:
    """A condition on the settings of a run: maps each key to its accepted values."""

    wanted: dict[str, list[Any]]
    places: dict[str, str]
    fitted: bool = False
    known: set[str] = field(default_factory=set)

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Whether a nested configuration satisfies the condition. Also records which keys were ever present."""
        fits = True
        for key, values in self.wanted.items():
            found, value = _lookup(config, key)
            if found:
                self.known.add(key)
            fits = fits and found and any(_same(value, wanted) for wanted in values)
        self.fitted = self.fitted or fits
        return fits

    def complain(self, problems: Problems, notes: list[str]) -> None:
        """Report a key that no run has as an error, and a condition that no run satisfies as a note."""
        for key, place in self.places.items():
            if key not in self.known:
                problems.add(place, f"no run of this sweep has the key {key!r}.")
        if self.wanted and not self.fitted and self.known == set(self.wanted):
            notes.append(f"{next(iter(self.places.values()))}: no run satisfies this condition.")


@dataclass(frozen=True)
class When:
    """Settings and axes that apply to runs that satisfy a condition."""

    condition: Condition
    always: Choice
    axes: list[Axis]


@dataclass
class Block:
    """A block of a specification. `recombine.sweeps.spec.spec` describes its parts."""

    base: Choice = ()
    axes: list[Axis] = field(default_factory=list)
    on_top: list[Axis] = field(
        default_factory=list
    )  # from command-line words given with a file; they override everything, including `when`
    when: list[When] = field(default_factory=list)
    exclude: list[Condition] = field(default_factory=list)
    plugins: dict[str, str] = field(default_factory=dict)  # name → sha256, or an empty string for any version


def axis_of_word(word: str, problems: Problems) -> Axis | None:
    """Parse a "key=value,value,…" word. Returns None and adds a problem if it is malformed."""
    key, equals, values = word.partition("=")
    if not equals or not all(key.strip().split(".")):
        problems.add("", f"Expected key=value,value,…, for example decoder.depth=2,3,4. Got {word!r}.")
        return None
    return [(setting,) for setting in _settings(key.strip(), values, repr(word), problems)]


def _settings(key: str, values: str, place: str, problems: Problems) -> list[Setting]:
    """One setting per value in `values`, which is text such as "2,3,4"."""
    try:
        parts = split_values(values)
    except InputError as error:
        problems.add(place, str(error))
        return []
    if "" in parts:
        problems.add(place, f"{key} has an empty value. Separate values with commas, as in 2,3,4.")
        return []
    return [Setting(key, plain_value(part), place) for part in parts]


def read_blocks(file: Path, problems: Problems) -> list[Block]:
    """Read the blocks of a YAML file. Problems are added to `problems`."""
    root = read_yaml(file, problems)
    if root is None:
        if not problems.found:
            problems.add("", f"The sweep is empty: {file} has no content.")
        return []
    nodes = root.content if isinstance(root.content, list) else [root]
    return [_block(node, problems) for node in nodes]


def _block(node: Node, problems: Problems) -> Block:
    block = Block()
    if not isinstance(node.content, dict):
        problems.add(node.place, f"a sweep consists of the parts {', '.join(PARTS)}. Got {node.plain()!r}.")
        return block
    for name, (place, part) in node.content.items():
        if name == "plugins":
            block.plugins = _plugins(part, problems)
        elif name == "base":
            block.base = _fixed(part, problems)
        elif name == "grid":
            block.axes += _grid(part, problems)
        elif name == "zip":
            block.axes += [_zip(item, problems) for item in _items(part)]
        elif name == "list":
            block.axes.append([_fixed(item, problems) for item in _items(part)])
        elif name == "when":
            block.when = [_when(item, problems) for item in _items(part)]
        elif name == "exclude":
            block.exclude = [_condition(item, problems) for item in _items(part)]
        else:
            problems.add(place, f"unknown part {name!r}{nearest(name, PARTS)}. Parts: {', '.join(PARTS)}. Settings of "
                         "the runs go under base or grid.")  # fmt: skip
    return block


def _plugins(node: Node, problems: Problems) -> dict[str, str]:
    """Names of plug-ins, or names with hashes."""
    named: Mapping[str, Any] = {}
    if isinstance(node.content, dict):
        named = {name: value.content or "" for name, (_, value) in node.content.items()}
    else:
        named = {item.content: "" for item in _items(node) if isinstance(item.content, str)}
    if not named or not all(isinstance(sha256, str) for sha256 in named.values()):
        problems.add(node.place, "plug-ins must be listed by name, or as name: sha256. Use --plugin to load files.")
        return {}
    return dict(named)


def _items(node: Node) -> list[Node]:
    return node.content if isinstance(node.content, list) else [node]


def _entries(node: Node, problems: Problems, prefix: str = "") -> Iterator[tuple[str, str, Node]]:
    """Dotted keys and their nodes. {decoder: {depth: 2}} is the same as {decoder.depth: 2}, group by group."""
    if not isinstance(node.content, dict):
        problems.add(node.place, f"expected keys with values, for example decoder.depth: 2. Got {node.plain()!r}.")
        return
    for key, (place, value) in node.content.items():
        if isinstance(value.content, dict) and not prefix and key in DEFAULTS:
            yield from _entries(value, problems, f"{key}.")
        else:
            yield prefix + key, place, value


def _fixed(node: Node, problems: Problems) -> Choice:
    """Keys with one value each. A list is a single value here."""
    return tuple(
        Setting(key, _plain(value), value.place if value.content is not None else place)
        for key, place, value in _entries(node, problems)
    )


def _plain(node: Node) -> Any:
    """The value of a node. YAML reads 1e-3 as text; it is converted to a number."""
    value = node.plain()
    return plain_value(value) if isinstance(value, str) else value


def _choices(key: str, node: Node, problems: Problems) -> list[Setting]:
    """The values of a key, written as a list or as text like on the command line."""
    if isinstance(node.content, str):
        return _settings(key, node.content, node.place, problems)
    found: list[Setting] = []
    for item in _items(node):
        if isinstance(item.content, str):
            found += _settings(key, item.content, item.place, problems)
        else:
            found.append(Setting(key, item.plain(), item.place))
    if not found:
        problems.add(node.place, f"{key} has no value. Give at least one.")
    return found


def _grid(node: Node, problems: Problems) -> list[Axis]:
    return [[(setting,) for setting in _choices(key, value, problems)] for key, _, value in _entries(node, problems)]


def _zip(node: Node, problems: Problems) -> Axis:
    columns = {key: _choices(key, value, problems) for key, _, value in _entries(node, problems)}
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{key} has {length}" for key, length in lengths.items())
        problems.add(node.place, f"keys in a zip must have the same number of values: {told}.")
        return []
    return list(zip(*columns.values()))


def _when(node: Node, problems: Problems) -> When:
    parts = dict(node.content) if isinstance(node.content, dict) else {}
    if "if" not in parts or not ({"set", "grid"} & set(parts)) or set(parts) - {"if", "set", "grid"}:
        problems.add(node.place, "a conditional entry needs the part 'if' and at least one of 'set' and 'grid'.")
        return When(Condition({}, {}), (), [])
    always = _fixed(parts["set"][1], problems) if "set" in parts else ()
    axes = _grid(parts["grid"][1], problems) if "grid" in parts else []
    return When(_condition(parts["if"][1], problems), always, axes)


def _condition(node: Node, problems: Problems) -> Condition:
    entries = {key: (place, _choices(key, value, problems)) for key, place, value in _entries(node, problems)}
    if not entries:
        problems.add(node.place, "a condition needs at least one key with a value.")
    wanted = {key: [setting.value for setting in choices] for key, (_, choices) in entries.items()}
    return Condition(wanted, {key: place for key, (place, _) in entries.items()})


def _lookup(config: Mapping[str, Any], key: str) -> tuple[bool, Any]:
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False, None
        value = value[part]
    return True, value


def _same(value: Any, wanted: Any) -> bool:
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
