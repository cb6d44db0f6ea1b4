"""Reads YAML files as plain data with positions. Tags are rejected, so no Python objects are constructed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recombine.core.errors import InputError
from recombine.core.files import read_named
from recombine.core.limits import YAML_BYTES, check_yaml_nodes

MOST_NAMED = 100  # maximum number of problems that are listed
PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


@dataclass(frozen=True)
class Node:
    """A value with its position. `content` is a list of nodes, a dict of key → (key's position, node), or a scalar."""

    content: Any
    place: str

    def plain(self) -> Any:
        """The value without positions."""
        if isinstance(self.content, dict):
            return {key: node.plain() for key, (_, node) in self.content.items()}
        if isinstance(self.content, list):
            return [node.plain() for node in self.content]
        return self.content


@dataclass
class Problems:
    """Collects all problems of an input, to report them together."""

    found: dict[str, None] = field(default_factory=dict)  # in order, without duplicates

    def add(self, place: str, text: str) -> None:
        """Add a problem with its position, which may be empty."""
        self.found[f"{place}: {text}" if place else text] = None

    def raise_if_any(self) -> None:
        """Raise an `InputError` that lists the problems, if there are any."""
        if self.found:
            lines, more = list(self.found)[:MOST_NAMED], len(self.found) - MOST_NAMED
            raise InputError("\n".join([*lines, f"… and {more} more problems."] if more > 0 else lines))


def read_yaml(path: Path, problems: Problems) -> Node | None:
    """The content of a file with "line L, column C" for every part. Problems are added to `problems`."""
    import yaml

    try:
        text = read_named(path, YAML_BYTES).decode()
    except InputError as error:
        problems.add("", str(error))
        return None
    except ValueError as error:
        problems.add("", f"The specification {path} cannot be read: {error}.")
        return None
    try:
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            check_yaml_nodes(root, str(path))
            return _node(root, loader, problems, 0)
        finally:
            loader.dispose()
    except InputError as error:
        problems.add("", str(error))
    except yaml.MarkedYAMLError as error:
        place = "" if error.problem_mark is None else _place(error.problem_mark)
        problems.add(place, f"{path} is not valid YAML: {error.problem}.")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problems.add("", f"{path} is not valid YAML: {error}.")
    return None


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _node(node: Any, loader: Any, problems: Problems, depth: int) -> Node:
    import yaml

    place = _place(node.start_mark)
    if depth > 20:
        problems.add(place, "this is nested too deeply.")
        return Node(None, place)
    if not isinstance(node, yaml.ScalarNode) and node.tag not in PLAIN_TAGS:
        problems.add(place, f"the tag {node.tag} is not allowed. A specification must be plain data.")
        return Node(None, place)
    if isinstance(node, yaml.MappingNode):
        loader.flatten_mapping(node)
        entries: dict[Any, tuple[str, Node]] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            where = _place(key_node.start_mark)
            if not isinstance(key, str):
                problems.add(where, f"a key must be text. Got {key!r}.")
            elif key in entries:
                problems.add(where, f"{key!r} is a duplicate of the key at {entries[key][0]}.")
            else:
                entries[key] = (where, _node(value_node, loader, problems, depth + 1))
        return Node(entries, place)
    if isinstance(node, yaml.SequenceNode):
        return Node([_node(item, loader, problems, depth + 1) for item in node.value], place)
    value = loader.construct_object(node, deep=True)
    if not isinstance(value, str | int | float | bool | None):
        value = node.value  # such as a date; configurations contain only text and numbers
    return Node(value, place)
